"""How right answers are, with intervals and paired comparisons.

Every metric but macro F1 is a ratio of two sums over logs, so that one set of weights serves all resamples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ddpclassify.corpus import Labelled
from ddpclassify.evaluation.prediction import Prediction

__all__ = [
    "CONFIDENT",
    "METRICS",
    "PAIRED",
    "Estimate",
    "Marks",
    "answers",
    "confusions",
    "difference",
    "estimate",
    "mark",
    "mcnemar",
]

CONFIDENT = 0.8  # from this confidence on an answer stands without a warning
UNKNOWN = "unknown"
NO_FAILURE = "no_failure"
RESAMPLES = 1000
_BLOCK = 2_000_000  # entries of a block of weights: bounds memory on large corpora

Floats: TypeAlias = NDArray[np.float64]


COLUMNS = (
    "right",
    "culprit",
    "culprit_asked",
    "evidence",
    "evidence_asked",
    "confident",
    "confident_wrong",
    "second",
    "second_asked",
)


@dataclass(frozen=True)
class Marks:
    """One tool's answers on n logs, marked with 1 and 0; ``marks["right"]`` is a column, shape (n,).

    ============================ ==================================================================================
    right                        the category is the label's (``"unknown"`` is wrong)
    culprit, culprit_asked       scope and culprit ranks both are the label's; asked where the label has both
    evidence, evidence_asked     one of the answer's lines is a labelled one; asked where a failure has labelled lines
    confident, confident_wrong   a category with a confidence of at least 0.8; and it is wrong
    second, second_asked         the label is one of the two likeliest categories; asked where the answer names any
    ============================ ==================================================================================

    Attributes
    ----------
    table : shape (n, 9), one column for each of `COLUMNS`; 0 where nothing is asked
    truth, given : the categories
    """

    table: Floats
    truth: tuple[str, ...]
    given: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.truth)

    def __getitem__(self, column: str) -> Floats:
        return self.table[:, COLUMNS.index(column)]

    def select(self, chosen: Sequence[int]) -> Marks:
        """Return the marks of some logs."""
        return Marks(
            self.table[np.asarray(chosen, dtype=np.intp)],
            tuple(self.truth[i] for i in chosen),
            tuple(self.given[i] for i in chosen),
        )


def mark(labels: Sequence[Labelled], predictions: Sequence[Prediction]) -> Marks:
    """Compare predictions with labels, one by one."""
    rows = [_mark(label, got) for label, got in zip(labels, predictions, strict=True)]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(COLUMNS))
    return Marks(table, tuple(x.category for x in labels), tuple(x.category for x in predictions))


def _mark(label: Labelled, got: Prediction) -> tuple[bool, ...]:
    right = got.category == label.category
    culprit_asked = label.scope is not None and label.culprit_ranks is not None
    culprit = culprit_asked and got.scope == label.scope and got.culprit_ranks == label.culprit_ranks
    evidence_asked = bool(label.evidence_lines) and label.category != NO_FAILURE
    evidence = evidence_asked and not got.evidence.isdisjoint(label.evidence_lines)
    confident = got.category != UNKNOWN and got.confidence >= CONFIDENT
    return (
        right,
        culprit,
        culprit_asked,
        evidence,
        evidence_asked,
        confident,
        confident and not right,
        label.category in got.candidates[:2],
        bool(got.candidates),
    )


Sums: TypeAlias = Callable[[Marks], tuple[Floats, Floats]]


def _ones(marks: Marks) -> Floats:
    return np.ones(len(marks))


# metric → (numerator, denominator) of each log.
_RATIOS: dict[str, Sums] = {
    "category_acc": lambda m: (m["right"], _ones(m)),
    "culprit_exact": lambda m: (m["culprit"], m["culprit_asked"]),
    "evidence_hit": lambda m: (m["evidence"], m["evidence_asked"]),
    "confident": lambda m: (m["confident"], _ones(m)),
    "confident_wrong": lambda m: (m["confident_wrong"], m["confident"]),
    "top2_acc": lambda m: (m["second"], m["second_asked"]),
}
METRICS = ("category_acc", "macro_f1", "culprit_exact", "evidence_hit", "confident", "confident_wrong", "top2_acc")


@dataclass(frozen=True)
class Estimate:
    """A metric with its 95 % interval; `n` is the number of logs (or answers) it is taken over, NaN for none."""

    value: float
    low: float
    high: float
    n: int


def estimate(metric: str, marks: Marks, *, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    r"""Return a metric and its percentile bootstrap interval.

    A ratio metric is

    .. math:: m(w) = \frac{\sum_i w_i a_i}{\sum_i w_i b_i}

    with w = 1 for the value and multinomial weights (n draws from n logs) for the resamples; the interval is the
    2.5 and 97.5 percentile of m over the resamples in which the denominator is not 0. Macro F1 is

    .. math:: \frac{1}{|C|} \sum_{c \in C} \frac{2\,\mathrm{TP}_c}{\mathrm{true}_c + \mathrm{given}_c}

    over the categories C that occur among the labels (of the resample). A category given but never true is in no term
    of its own, unlike in scikit-learn, where it adds a 0: it already lowers the recall of the true ones.

    Parameters
    ----------
    metric : one of `METRICS`
    seed : equal seeds draw equal resamples, which makes estimates of several tools on the same logs paired
    """
    if not answers(metric, marks):
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = _values(metric, marks, np.ones((1, len(marks))))[0]
    draws = _resampled(metric, marks, seed, resamples)
    low, high = _interval(draws)
    n = len(marks) if metric == "macro_f1" else int(_RATIOS[metric](marks)[1].sum())
    return Estimate(float(value), low, high, n)


def answers(metric: str, marks: Marks) -> bool:
    """Say whether a metric means anything for a tool: those of the category don't where it never names one."""
    return metric not in ("category_acc", "macro_f1", "confident") or any(marks.given)


def difference(metric: str, ours: Marks, theirs: Marks, *, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """Return the paired difference of a metric of two tools on the same logs: both are weighted alike in a resample."""
    if ours.truth != theirs.truth:
        raise ValueError("a paired comparison needs the same logs in the same order")
    whole = np.ones((1, len(ours)))
    value = _values(metric, ours, whole)[0] - _values(metric, theirs, whole)[0]
    low, high = _interval(_resampled(metric, ours, seed, resamples) - _resampled(metric, theirs, seed, resamples))
    return Estimate(float(value), low, high, len(ours))


def _interval(draws: Floats) -> tuple[float, float]:
    kept = draws[~np.isnan(draws)]
    if not kept.size:
        return math.nan, math.nan
    low, high = np.percentile(kept, [2.5, 97.5])
    return float(low), float(high)


def _resampled(metric: str, marks: Marks, seed: int, resamples: int) -> Floats:
    n = len(marks)
    if not n:
        return np.full(resamples, math.nan)
    rng = np.random.default_rng(seed)
    step = max(1, _BLOCK // n)
    blocks = [
        _values(metric, marks, rng.multinomial(n, np.full(n, 1 / n), size=min(step, resamples - start)))
        for start in range(0, resamples, step)
    ]
    return np.concatenate(blocks)


def _values(metric: str, marks: Marks, weights: NDArray[np.generic]) -> Floats:
    """Return the metric for each row of weights, NaN where its denominator is 0."""
    w = weights.astype(np.float64)
    if metric == "macro_f1":
        return _macro_f1(marks, w)
    a, b = _RATIOS[metric](marks)
    return _ratio(w @ a, w @ b)


def _macro_f1(marks: Marks, w: Floats) -> Floats:
    names = sorted(set(marks.truth))
    truth = np.array([[label == name for name in names] for label in marks.truth], dtype=np.float64)
    given = np.array([[label == name for name in names] for label in marks.given], dtype=np.float64)
    if not names:
        return np.full(len(w), math.nan)
    true = w @ truth
    f1 = _ratio(2 * (w @ (truth * given)), true + w @ given)
    present = true > 0
    return _ratio(np.where(present, f1, 0).sum(axis=1), present.sum(axis=1).astype(np.float64))


def _ratio(a: Floats, b: Floats) -> Floats:
    return cast("Floats", np.divide(a, b, out=np.full(a.shape, math.nan), where=b > 0))


@dataclass(frozen=True)
class Comparison:
    """Logs that only the first or only the second tool has right, and the chance of so uneven a split."""

    only_first: int
    only_second: int
    p: float


PAIRED = {"category_acc": "right", "culprit_exact": "culprit", "evidence_hit": "evidence"}
"""The metrics that are 0 or 1 for each log → their column of marks."""


def mcnemar(first: Floats, second: Floats) -> Comparison:
    r"""Compare two tools on the same logs by McNemar's exact test.

    Of the n logs that exactly one of them has right, the smaller share k has, if neither is better, the probability

    .. math:: p = \min\Bigl(1, 2 \sum_{i \le k} \binom{n}{i} 2^{-n}\Bigr)

    >>> mcnemar(np.array([1, 1, 1, 1, 1, 0.0]), np.array([0, 0, 0, 0, 0, 0.0]))
    Comparison(only_first=5, only_second=0, p=0.0625)
    """
    ours = int(np.sum((first > 0) & (second == 0)))
    theirs = int(np.sum((second > 0) & (first == 0)))
    n = ours + theirs
    term, total = 1, 0
    for i in range(min(ours, theirs) + 1):
        total += term
        term = term * (n - i) // (i + 1)
    return Comparison(ours, theirs, min(1.0, 2 * total / 2**n))


def confusions(marks: Marks) -> list[tuple[str, str, int]]:
    """Return label, wrong answer and count, most frequent first."""
    pairs = Counter((truth, given) for truth, given in zip(marks.truth, marks.given, strict=True) if truth != given)
    return [(truth, given, n) for (truth, given), n in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))]
