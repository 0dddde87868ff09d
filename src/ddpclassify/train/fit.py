"""Fit the five linear models with scikit-learn and export them as `Parts`.

Later models see what they will see at prediction: answers of the earlier ones that were not trained on the same
template. So each step's answers on the training corpus come from grouped cross-validation.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
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

from ddpclassify.evaluation.calibration import reliability
from ddpclassify.features import Features
from ddpclassify.features.culprits import rank_features, scope_features
from ddpclassify.model.answers import Answers, Parts, category_features, category_words, culprits, ranked_causes
from ddpclassify.model.linear import Array, Columns, Part
from ddpclassify.train.confidence import chow_threshold, temperature
from ddpclassify.train.samples import Sample
from ddpclassify.types import InputError

FOLDS = 5
FEW = 50
"""In fewer rows than this every word counts: hardly any comes twice."""
SEED = 20261201


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
    if words is not None and any(words):
        vectors = TfidfVectorizer(
            analyzer=identity,
            sublinear_tf=True,
            min_df=settings.min_df if len(words) >= FEW else 1,
            max_features=settings.max_terms,
            dtype=np.float64,
        )
        vectors.fit(words)
    names = DictVectorizer(dtype=np.float64)
    names.fit(features)
    fitted = Fitted(vectors, names, clone(model))
    with warnings.catch_warnings():  # a small corpus may well have many categories
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
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
        if len(only := {y[i] for i in train}) == 1:
            return test, list(only), np.ones((len(test), 1))
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


def blind(
    features: Sequence[Features],
    y: Sequence[str],
    weight: Sequence[float],
    groups: Sequence[str],
    model: LogisticRegression,
    settings: Settings,
) -> dict[str, Part]:
    """Return for each group a model that saw no row of it."""
    found: dict[str, Part] = {}
    folds = GroupKFold(n_splits=min(FOLDS, len(set(groups))))
    for train, test in folds.split(np.zeros(len(y)), y, groups):
        if len({y[i] for i in train}) > 1:
            x, k, w = ([rows[i] for i in train] for rows in (features, y, weight))
            part = fit_one(None, x, k, w, model, settings).part()
            found.update((groups[i], part) for i in test)
    return found


def rate(marks: Sequence[bool]) -> float | None:
    """Return the share of true marks; None for none at all."""
    return float(np.mean(marks)) if marks else None


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
    answers: dict[int, Answers] = field(default_factory=dict)  # of the logs asked for, by models that saw none like it


def fit(
    samples: Sequence[Sample],
    settings: Settings | None = None,
    weights: Sequence[float] | None = None,
    base: Parts | None = None,
    asked: Collection[int] = (),
) -> Training:
    """Fit all five models.

    Parameters
    ----------
    samples : labelled logs of at least two categories
    weights : weight of each log (default 1 each)
    base : a model that answers what the labels don't tell: which failure is the cause, the scope, the ranks
    asked : indices of the logs whose held-out answers are wanted

    Raises
    ------
    InputError : the labels don't suffice
    """
    if len({s.label["category"] for s in samples}) < 2 or len({s.group for s in samples}) < 2:
        raise InputError("too few labels: training needs logs of at least two categories; --with builtin adds some")
    with threadpool_limits(limits=1):  # the matrices are sparse: more threads only wait for each other
        return _fit(samples, settings or Settings(), list(weights or [1.0] * len(samples)), base, asked)


def _learnable(y: Sequence[str], groups: Sequence[str]) -> bool:
    return len(set(y)) > 1 and len(set(groups)) > 1


def _borrowed(base: Parts | None, name: str, field: str) -> Part:
    """Take a model from the base where the labels can't teach it."""
    if base is None:
        raise InputError(f"too few labels with {field!r} to learn from, and no model at hand to take the rest from")
    part: Part = getattr(base, name)
    return part


def _fit(
    samples: Sequence[Sample], settings: Settings, weight: list[float], base: Parts | None, asked: Collection[int]
) -> Training:
    cause_model, scope_model, rank_model = (
        LogisticRegression(C=c, max_iter=400, random_state=SEED)
        for c in (settings.c_cause, settings.c_scope, settings.c_rank)
    )
    category_model = LinearSVC(C=settings.c_category, random_state=SEED)
    groups = [s.group for s in samples]

    # 1. Which failure is the cause. Rows are failures; a log's rows share its weight. A label without evidence lines
    # tells nothing about it: such logs are asked, not learned from.
    told = [bool(s.label.get("evidence_lines")) or s.label["category"] == "no_failure" for s in samples]
    owner = [i for i, s in enumerate(samples) if told[i] for _ in s.described.folded.failures]
    words = [w for s, t in zip(samples, told, strict=True) if t for w in s.described.tokens]
    places = [p for s, t in zip(samples, told, strict=True) if t for p in s.described.places]
    truth = ["yes" if c else "no" for s, t in zip(samples, told, strict=True) if t for c in s.is_cause]
    row_weight = [weight[i] * (2.0 if t == "yes" else 1.0) for i, t in zip(owner, truth, strict=True)]
    row_groups = [groups[i] for i in owner]
    scores: list[list[float]] = [[] for _ in samples]
    asked_too = [not t for t in told]
    if _learnable(truth, row_groups):
        held, _ = out_of_fold(words, places, truth, row_weight, row_groups, cause_model, settings)
        cause = fit_one(words, places, truth, row_weight, cause_model, settings).part()
        for i, p in zip(owner, held[:, -1], strict=True):
            scores[i].append(float(p))
    else:
        cause, asked_too = _borrowed(base, "cause", "evidence_lines"), [True] * len(samples)
    for i, s in enumerate(samples):
        if asked_too[i]:
            rows_of = zip(s.described.tokens, s.described.places, strict=True)
            scores[i] = [cause.probabilities(w, p)[1] for w, p in rows_of]

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
    scope_weight = [weight[i] for i in with_scope]
    blind_scopes: dict[int, dict[str, float]] = {}
    if _learnable(scope_y, scope_groups):
        scope_held, scope_classes = out_of_fold(
            None, scope_x, scope_y, scope_weight, scope_groups, scope_model, settings
        )
        scope = fit_one(None, scope_x, scope_y, scope_weight, scope_model, settings).part()
        for i, p in zip(with_scope, scope_held, strict=True):
            blind_scopes[i] = dict(zip(scope_classes, map(float, p), strict=True))
    else:
        scope = _borrowed(base, "scope", "scope")
        for i, x in zip(with_scope, scope_x, strict=True):
            blind_scopes[i] = dict(zip(scope.classes, scope.probabilities((), x), strict=True))
    rank_x: list[Features] = []
    rank_y: list[str] = []
    rank_weight: list[float] = []
    rank_groups: list[str] = []
    for i in with_scope:
        s = samples[i]
        if s.label["scope"] != "ranks":
            continue
        wanted = set(s.label.get("culprit_ranks") or ())
        rows = rank_features(s.described.folded, s.described.view, ranked_causes(s.described, scores[i]), guess[i])
        for r, x in rows.items():
            rank_x.append(x)
            rank_groups.append(groups[i])
            rank_y.append("yes" if r in wanted else "no")
            # a log of a thousand ranks counts as much as one of two
            share = len(wanted & set(rows)) if r in wanted else len(set(rows) - wanted)
            rank_weight.append(weight[i] / max(share, 1))
    if _learnable(rank_y, rank_groups):
        rank = fit_one(None, rank_x, rank_y, rank_weight, rank_model, settings).part()
        blind_ranks = blind(rank_x, rank_y, rank_weight, rank_groups, rank_model, settings) if asked else {}
    else:
        rank, blind_ranks = _borrowed(base, "rank", "culprit_ranks"), {}
    if not reason.classes and base is not None:
        reason = base.reason
    parts = Parts(cause, category.part(t), reason, scope, rank)
    answers = {}
    for i in asked:
        described, sure_i = samples[i].described, float(calibrated[i].max())
        found, ranks = culprits(described, scores[i], guess[i], sure_i, scope, blind_ranks.get(groups[i], rank))
        answers[i] = Answers(
            tuple(scores[i]),
            dict(zip(classes, map(float, calibrated[i]), strict=True)),
            None,
            blind_scopes.get(i, found),
            ranks,
        )
    held_out = {
        "category_accuracy": float(np.mean([g == k for g, k in zip(guess, y, strict=True)])),
        "scope_accuracy": rate(
            [max(p, key=lambda c: p[c]) == samples[i].label["scope"] for i, p in blind_scopes.items()]
        ),
        "cause_first": rate(
            [s.is_cause[int(np.argmax(p))] for s, p in zip(samples, scores, strict=True) if any(s.is_cause)]
        ),
        "evidence_found": rate(
            [any(s.is_cause) for s in samples if s.label.get("evidence_lines") and s.label["category"] != "no_failure"]
        ),
        "logs": len(samples),
        "groups": len(set(groups)),
        "temperature": t,
        "calibration": reliability(calibrated.max(1), right),
    }
    return Training(parts, held_out, chow_threshold(calibrated.max(1), right), answers)
