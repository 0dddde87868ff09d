"""Fit the five linear models with scikit-learn and export them as `Parts`.

Later models see what they will see at prediction: answers of the earlier ones that were not trained on the same
template. So each step's answers on the training corpus come from grouped cross-validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from ddpclassify.features import Features
from ddpclassify.features.culprits import rank_features, scope_features
from ddpclassify.model.answers import Parts, category_features, category_words, ranked_causes
from ddpclassify.model.linear import Array, Columns, Part
from ddpclassify.train.samples import Sample

FOLDS = 5
SEED = 20261201
LEAST_RIGHT = 0.45
"""Answers that are right less often are not given: two guesses in the report then say more than one name."""


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters; chosen by grouped cross-validation (see the model card)."""

    c_cause: float = 1.0
    c_category: float = 0.3
    c_reason: float = 4.0
    c_scope: float = 0.3
    c_rank: float = 1.0
    min_df: int = 2
    max_terms: int = 40_000


def identity(words: list[str]) -> list[str]:
    """Pass ready-made words through scikit-learn's vectoriser."""
    return words


@dataclass
class Fitted:
    """A fitted estimator with its vectorisers."""

    words: TfidfVectorizer | None
    names: DictVectorizer
    model: LogisticRegression | LinearSVC

    def matrix(self, words: Sequence[list[str]], features: Sequence[Features]) -> Any:
        named = self.names.transform(features)
        return sparse.hstack([self.words.transform(words), named]).tocsr() if self.words is not None else named.tocsr()

    def probabilities(self, words: Sequence[list[str]], features: Sequence[Features]) -> Array:
        scores = self.model.decision_function(self.matrix(words, features))
        both = scores if scores.ndim == 2 else np.stack([np.zeros(len(scores)), scores], axis=1)
        return np.asarray(softmax(both, axis=1))

    def part(self, temperature: float = 1.0) -> Part:
        terms = {str(t): int(i) for t, i in self.words.vocabulary_.items()} if self.words is not None else {}
        terms = dict(sorted(terms.items(), key=lambda kv: kv[1]))
        idf = np.asarray(self.words.idf_, np.float64) if self.words is not None else np.zeros(0)
        names = {str(n): i for i, n in enumerate(self.names.get_feature_names_out())}
        return Part(
            terms,
            names,
            idf,
            Columns.of(self.model.coef_),
            np.asarray(self.model.intercept_, np.float64),
            tuple(map(str, self.model.classes_)),
            temperature,
        )


def fit_one(
    words: Sequence[list[str]] | None,
    features: Sequence[Features],
    y: Sequence[str],
    weight: Sequence[float] | None,
    model: LogisticRegression | LinearSVC,
    settings: Settings,
) -> Fitted:
    """Fit one linear model over words and named features."""
    vectors = None
    if words is not None:
        vectors = TfidfVectorizer(
            analyzer=identity,
            sublinear_tf=True,
            min_df=settings.min_df,
            max_features=settings.max_terms,
            dtype=np.float64,
        )
        vectors.fit(words)
    names = DictVectorizer(dtype=np.float64)
    names.fit(features)
    fitted = Fitted(vectors, names, clone(model))
    fitted.model.fit(fitted.matrix(words or (), features), list(y), sample_weight=weight)
    # Stored as float32: round here, so that the file and the estimator give the same answers.
    fitted.model.coef_ = fitted.model.coef_.astype(np.float32).astype(np.float64)
    return fitted


def out_of_fold(
    words: Sequence[list[str]] | None,
    features: Sequence[Features],
    y: Sequence[str],
    weight: Sequence[float] | None,
    groups: Sequence[str],
    model: LogisticRegression | LinearSVC,
    settings: Settings,
) -> tuple[Array, list[str]]:
    """Return probabilities for every row from models that saw no row of its group, and their classes."""
    classes = sorted(set(y))
    out = np.full((len(y), len(classes)), 1e-9)
    folds = GroupKFold(n_splits=min(FOLDS, len(set(groups))))

    def fold(train: Array, test: Array) -> tuple[Array, list[str], Array]:
        fitted = fit_one(
            None if words is None else [words[i] for i in train],
            [features[i] for i in train],
            [y[i] for i in train],
            None if weight is None else [weight[i] for i in train],
            model,
            settings,
        )
        got = fitted.probabilities([] if words is None else [words[i] for i in test], [features[i] for i in test])
        return test, list(fitted.model.classes_), got

    splits = folds.split(np.zeros(len(y)), y, groups)
    for test, names, got in Parallel(n_jobs=-1)(delayed(fold)(*split) for split in splits):
        out[np.ix_(test, [classes.index(k) for k in names])] = got
    return out, classes


def temperature(probabilities: Array, y: Sequence[int]) -> float:
    """Return the temperature that minimises the log loss of held-out probabilities (Guo et al., 2017)."""
    logits = np.log(np.clip(probabilities, 1e-12, 1))
    rows, best, value = np.arange(len(y)), 1.0, np.inf
    for t in np.geomspace(0.05, 4, 121):
        scaled = logits / t
        loss = float(
            np.mean(
                np.log(np.exp(scaled - scaled.max(1, keepdims=True)).sum(1)) + scaled.max(1) - scaled[rows, list(y)]
            )
        )
        if loss < value:
            best, value = float(t), loss
    return best


def chow_threshold(confidence: Array, right: Array) -> float:
    """Return the confidence below which fewer than `LEAST_RIGHT` of the answers are right (Chow, 1970).

    Parameters
    ----------
    confidence, right : held-out answers, and whether each is right; shape (n,)
    """
    order = np.argsort(-confidence, kind="stable")
    gain = np.cumsum(right[order] - LEAST_RIGHT)
    return float(round(confidence[order][int(gain.argmax())], 2))


def reliability(confidence: Array, right: Array, bins: int = 10) -> dict[str, Any]:
    """Return the reliability table of held-out answers and their expected calibration error (Naeini et al., 2015)."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    rows = [
        {
            "from": b / bins,
            "logs": int(here.sum()),
            "confidence": float(confidence[here].mean()),
            "right": float(right[here].mean()),
        }
        for b in range(bins)
        if (here := place == b).any()
    ]
    error = sum(row["logs"] * abs(row["confidence"] - row["right"]) for row in rows) / len(confidence)
    confident = [
        {"from": c, "share": float(here.mean()), "wrong": float(1 - right[here].mean())}
        for c in (0.5, 0.8, 0.9, 0.95)
        if (here := confidence >= c).any()
    ]
    return {"expected_calibration_error": float(error), "bins": rows, "confident": confident}


def fit_reasons(
    category: Fitted,
    words: Sequence[list[str]],
    features: Sequence[Features],
    samples: Sequence[Sample],
    weight: Sequence[float],
    c: float,
) -> Part:
    """Fit one model a category for the reasons inside it, on the inputs of the category model, and stack them.

    Scores are comparable inside a category only, and that is all that the answer compares.
    """
    rows: dict[str, list[int]] = {}
    for i, s in enumerate(samples):
        if s.label.get("reason"):
            rows.setdefault(s.label["category"], []).append(i)
    matrix = category.matrix(words, features)
    names: list[str] = []
    coef: list[Array] = []
    intercept: list[float] = []
    for name, members in sorted(rows.items()):
        y = [str(samples[i].label["reason"]) for i in members]
        classes = sorted(set(y))
        weights, offsets = np.zeros((1, matrix.shape[1])), np.zeros(1)
        if len(classes) > 1:
            model = LogisticRegression(C=c, max_iter=400, random_state=SEED)
            part = matrix[members]
            used = np.unique(part.indices)  # a weight of an input that no row has would stay 0
            model.fit(part[:, used], y, sample_weight=[weight[i] for i in members])
            fitted, offsets = model.coef_, model.intercept_
            if len(classes) == 2:
                fitted, offsets = np.vstack([-fitted, fitted]), np.concatenate([-offsets, offsets])
            weights = np.zeros((len(classes), matrix.shape[1]))
            weights[:, used] = fitted
        names += [f"{name}/{each}" for each in classes]
        coef.append(weights)
        intercept += [float(x) for x in offsets]
    inputs = category.part()
    stacked = np.vstack(coef) if coef else np.zeros((0, matrix.shape[1]))
    return Part(
        inputs.terms,
        inputs.names,
        inputs.idf,
        Columns.of(stacked),
        np.asarray(intercept, np.float64),
        tuple(names),
    )


@dataclass(frozen=True)
class Training:
    """The models, and what held-out folds say of them."""

    parts: Parts
    held_out: dict[str, Any]
    threshold: float  # least probability of a named category


def fit(
    samples: Sequence[Sample], settings: Settings | None = None, weights: Sequence[float] | None = None
) -> Training:
    """Fit all five models.

    Parameters
    ----------
    samples : labelled logs of at least two categories
    weights : weight of each log (default 1 each)
    """
    with threadpool_limits(limits=1):  # the matrices are sparse: more threads only wait for each other
        return _fit(samples, settings or Settings(), list(weights or [1.0] * len(samples)))


def _fit(samples: Sequence[Sample], settings: Settings, weight: list[float]) -> Training:
    cause_model, scope_model, rank_model = (
        LogisticRegression(C=c, max_iter=400, random_state=SEED)
        for c in (settings.c_cause, settings.c_scope, settings.c_rank)
    )
    category_model = LinearSVC(C=settings.c_category, random_state=SEED)
    groups = [s.group for s in samples]

    # 1. Which failure is the cause. Rows are failures; a log's rows share its weight.
    owner = [i for i, s in enumerate(samples) for _ in s.described.folded.failures]
    words = [w for s in samples for w in s.described.tokens]
    places = [p for s in samples for p in s.described.places]
    truth = ["yes" if c else "no" for s in samples for c in s.is_cause]
    row_weight = [weight[i] * (2.0 if t == "yes" else 1.0) for i, t in zip(owner, truth, strict=True)]
    row_groups = [groups[i] for i in owner]
    held, _ = out_of_fold(words, places, truth, row_weight, row_groups, cause_model, settings)
    cause = fit_one(words, places, truth, row_weight, cause_model, settings)
    scores: list[list[float]] = [[] for _ in samples]
    for i, p in zip(owner, held[:, -1], strict=True):
        scores[i].append(float(p))

    # 2. The category, and the reason inside it.
    y = [s.label["category"] for s in samples]
    log_words = [category_words(s.described, p) for s, p in zip(samples, scores, strict=True)]
    log_features = [category_features(s.described, p) for s, p in zip(samples, scores, strict=True)]
    probabilities, classes = out_of_fold(log_words, log_features, y, weight, groups, category_model, settings)
    t = temperature(probabilities, [classes.index(k) for k in y])
    calibrated = softmax(np.log(np.clip(probabilities, 1e-12, 1)) / t, axis=1)
    right = np.array([classes[int(j)] == k for j, k in zip(calibrated.argmax(1), y, strict=True)], dtype=float)
    category = fit_one(log_words, log_features, y, weight, category_model, settings)
    reason = fit_reasons(category, log_words, log_features, samples, weight, settings.c_reason)

    # 3. The culprit: the scope, and each rank where some ranks are it.
    guess = [classes[int(j)] for j in probabilities.argmax(1)]
    sure = calibrated.max(1)
    with_scope = [i for i, s in enumerate(samples) if s.label.get("scope")]
    scope_x = [
        scope_features(
            samples[i].described.folded,
            samples[i].described.view,
            next(iter(ranked_causes(samples[i].described, scores[i])), None),
            guess[i],
            float(sure[i]),
        )
        for i in with_scope
    ]
    scope_y = [samples[i].label["scope"] for i in with_scope]
    scope_groups = [groups[i] for i in with_scope]
    scope_held, scope_classes = out_of_fold(
        None, scope_x, scope_y, [weight[i] for i in with_scope], scope_groups, scope_model, settings
    )
    scope = fit_one(None, scope_x, scope_y, [weight[i] for i in with_scope], scope_model, settings)
    rank_x: list[Features] = []
    rank_y: list[str] = []
    rank_weight: list[float] = []
    for i in with_scope:
        s = samples[i]
        if s.label["scope"] != "ranks":
            continue
        wanted = set(s.label.get("culprit_ranks") or ())
        rows = rank_features(s.described.folded, s.described.view, ranked_causes(s.described, scores[i]), guess[i])
        for r, x in rows.items():
            rank_x.append(x)
            rank_y.append("yes" if r in wanted else "no")
            # a log of a thousand ranks counts as much as one of two
            share = len(wanted & set(rows)) if r in wanted else len(set(rows) - wanted)
            rank_weight.append(weight[i] / max(share, 1))
    rank = fit_one(None, rank_x, rank_y, rank_weight, rank_model, settings)
    parts = Parts(cause.part(), category.part(t), reason, scope.part(), rank.part())
    held_out = {
        "category_accuracy": float(np.mean([g == k for g, k in zip(guess, y, strict=True)])),
        "scope_accuracy": float(
            np.mean([scope_classes[int(j)] == k for j, k in zip(scope_held.argmax(1), scope_y, strict=True)])
        ),
        "cause_first": float(
            np.mean([s.is_cause[int(np.argmax(p))] for s, p in zip(samples, scores, strict=True) if any(s.is_cause)])
        ),
        "evidence_found": float(
            np.mean(
                [
                    any(s.is_cause)
                    for s in samples
                    if s.label.get("evidence_lines") and s.label["category"] != "no_failure"
                ]
            )
        ),
        "logs": len(samples),
        "groups": len(set(groups)),
        "temperature": t,
        "calibration": reliability(calibrated.max(1), right),
    }
    return Training(parts, held_out, chow_threshold(calibrated.max(1), right))
