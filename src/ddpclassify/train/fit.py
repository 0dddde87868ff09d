"""Fit the five linear models with scikit-learn and export them as `Parts`.

Later models see what they will see at prediction: answers of the earlier ones that were not trained on the same
template. So each step's answers on the training corpus come from grouped cross-validation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from ddpclassify.evaluation.calibration import reliability
from ddpclassify.features import Features
from ddpclassify.features.culprits import rank_features, scope_features
from ddpclassify.model.answers import Answers, Parts, category_features, category_words, culprits, ranked_causes
from ddpclassify.model.linear import Array, Columns, Part
from ddpclassify.train.confidence import chow_threshold, temperature
from ddpclassify.train.linear import SEED, Fitted, Settings, blind, fit_one, out_of_fold
from ddpclassify.train.samples import Sample
from ddpclassify.types import Failure, InputError


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
    category_model = LinearSVC(C=settings.c_category, dual="auto", random_state=SEED)
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
    probabilities, classes = out_of_fold(
        log_words, log_features, y, weight, groups, category_model, settings, settings.dropout
    )
    truth_at = [classes.index(k) for k in y]
    # Of a category with one template the other folds know nothing: such rows tell nothing of the confidence.
    knowable = [i for i, j in enumerate(truth_at) if probabilities[i, j] > 0] or list(range(len(y)))
    t = temperature(probabilities[knowable], [truth_at[i] for i in knowable])
    calibrated = softmax(np.log(np.clip(probabilities, 1e-12, 1)) / t, axis=1)
    right = np.array([classes[int(j)] == k for j, k in zip(calibrated.argmax(1), y, strict=True)], dtype=float)
    category = fit_one(log_words, log_features, y, weight, category_model, settings, settings.dropout)
    reason = fit_reasons(category, log_words, log_features, samples, weight, settings.c_reason)

    def causes_of(i: int) -> list[Failure]:
        return ranked_causes(samples[i].described, scores[i])

    # 3. The culprit: each rank, given that some ranks are it, and then the scope, which sees how clear that answer is.
    guess = [classes[int(j)] for j in probabilities.argmax(1)]
    sure = calibrated.max(1)
    with_scope = [i for i, s in enumerate(samples) if s.label.get("scope")]
    rows = {
        i: rank_features(samples[i].described.folded, samples[i].described.view, causes_of(i), guess[i])
        for i in sorted({*with_scope, *asked})
    }
    rank_x: list[Features] = []
    rank_y: list[str] = []
    rank_weight: list[float] = []
    rank_groups: list[str] = []
    for i in with_scope:
        if samples[i].label["scope"] != "ranks":
            continue
        wanted = set(samples[i].label.get("culprit_ranks") or ())
        for r, x in rows[i].items():
            rank_x.append(x)
            rank_groups.append(groups[i])
            rank_y.append("yes" if r in wanted else "no")
            # a log of a thousand ranks counts as much as one of two
            share = len(wanted & set(rows[i])) if r in wanted else len(set(rows[i]) - wanted)
            rank_weight.append(weight[i] / max(share, 1))
    blind_ranks: dict[str, Part] = {}
    if _learnable(rank_y, rank_groups):
        rank = fit_one(None, rank_x, rank_y, rank_weight, rank_model, settings).part()
        blind_ranks = blind(rank_x, rank_y, rank_weight, rank_groups, rank_model, settings)
    else:
        rank = _borrowed(base, "rank", "culprit_ranks")
    ranks_of = {
        i: {r: blind_ranks.get(groups[i], rank).probabilities((), x)[1] for r, x in each.items()}
        for i, each in rows.items()
    }
    scope_x = [
        scope_features(
            samples[i].described.folded,
            samples[i].described.view,
            next(iter(causes_of(i)), None),
            guess[i],
            float(sure[i]),
            ranks_of[i],
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
    if not reason.classes and base is not None:
        reason = base.reason
    parts = Parts(cause, category.part(t), reason, scope, rank)
    answers = {}
    for i in asked:
        answers[i] = Answers(
            tuple(scores[i]),
            dict(zip(classes, map(float, calibrated[i]), strict=True)),
            None,
            blind_scopes.get(i) or culprits(samples[i].described, scores[i], guess[i], float(sure[i]), scope, rank)[0],
            ranks_of[i],
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
        "calibration": reliability(sure[knowable], right[knowable]),
    }
    return Training(parts, held_out, chow_threshold(sure[knowable], right[knowable]), answers)
