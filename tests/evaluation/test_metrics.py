"""Metrics against a small independent computation, and against the published definition of the score."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddpclassify.evaluation import METRICS, Labelled, Prediction, mark, mcnemar
from ddpclassify.evaluation.metrics import Marks, confusions, difference, estimate
from ddpclassify.evaluation.prediction import from_dict

CATEGORIES = ("cuda_oom", "code_error", "no_failure", "data_error", "unknown")


def label(
    category: str, scope: str | None = "all", ranks: tuple[int, ...] | None = (), lines: tuple[str, ...] = ()
) -> Labelled:
    return Labelled(Path("x"), "x", category, scope, ranks, lines)


def random_pairs(n: int, seed: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        want: dict[str, Any] = {
            "log": "x",
            "category": rng.choice(CATEGORIES[:4]),
            "scope": rng.choice(["ranks", "all"]),
            "culprit_ranks": rng.sample(range(3), rng.randint(0, 2)),
            "evidence_lines": rng.choice([[], [1], [2, 3], ["a.log:2"]]),
        }
        got = {
            "category": rng.choice([*CATEGORIES, want["category"], None]),
            "confidence": rng.choice([None, 0.3, 0.8, 0.95]),
            "scope": rng.choice(["ranks", "all", None]),
            "culprit_ranks": rng.choice([None, want["culprit_ranks"][::-1], [1]]),
            "evidence": rng.choice(
                [None, [], [{"line": 2, "file": None}], [{"line": 2, "file": "a.log"}, {"line": 1}]]
            ),
            "candidates": [{"category": c, "probability": 0.1} for c in rng.sample(CATEGORIES, 3)],
        }
        pairs.append((want, got))
    return pairs


def published_score(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, float]:
    """The definition of the score that releases are judged by, stated once more."""
    right = culprit = evidence = asked = confident = wrong = 0
    for want, got in pairs:
        good = got.get("category") == want["category"]
        right += good
        culprit += got.get("scope") == want["scope"] and sorted(got.get("culprit_ranks") or []) == sorted(
            want["culprit_ranks"]
        )
        lines = {str(e.get("line")) for e in got.get("evidence") or []}
        lines |= {f"{e['file']}:{e.get('line')}" for e in got.get("evidence") or [] if e.get("file")}
        if want.get("evidence_lines") and want["category"] != "no_failure":
            asked += 1
            evidence += bool(lines & {str(x) for x in want["evidence_lines"]})
        if got.get("category") != "unknown" and (got.get("confidence") or 0) >= 0.8:
            confident += 1
            wrong += not good
    n = len(pairs)
    return {
        "category_acc": right / n,
        "culprit_exact": culprit / n,
        "evidence_hit": evidence / asked,
        "confident": confident / n,
        "confident_wrong": wrong / confident,
    }


def marked(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> Marks:
    labels = [
        label(
            want["category"],
            want["scope"],
            tuple(sorted(want["culprit_ranks"])),
            tuple(str(x) for x in want["evidence_lines"]),
        )
        for want, _ in pairs
    ]
    return mark(labels, [from_dict(json.loads(json.dumps(got))) for _, got in pairs])


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_the_published_score(seed: int) -> None:
    pairs = random_pairs(60, seed)
    marks = marked(pairs)
    for metric, value in published_score(pairs).items():
        assert estimate(metric, marks, resamples=1).value == pytest.approx(value)


def test_macro_f1_by_hand() -> None:
    truth = ["a", "a", "b", "b", "c"]
    given = ["a", "b", "b", "b", "z"]
    marks = mark([label(x) for x in truth], [Prediction(x) for x in given])
    # a: precision 1, recall 1/2; b: precision 2/3, recall 1; c: 0; z is never true
    assert estimate("macro_f1", marks).value == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)


def test_top_two_only_where_there_are_candidates() -> None:
    labels = [label("a")] * 3
    answers = [Prediction("b", candidates=("b", "a")), Prediction("b", candidates=("b", "c", "a")), Prediction("a")]
    got = estimate("top2_acc", mark(labels, answers))
    assert (got.value, got.n) == (0.5, 2)


def test_labels_that_leave_something_out() -> None:
    marks = mark([label("a", None, None), label("a", lines=("3",))], [Prediction("a", "all")] * 2)
    assert estimate("culprit_exact", marks).n == 1
    assert estimate("culprit_exact", marks).value == 1
    assert (estimate("evidence_hit", marks).n, estimate("evidence_hit", marks).value) == (1, 0)


def test_nothing_to_measure_is_nan() -> None:
    marks = mark([label("a")], [Prediction("a")])
    assert math.isnan(estimate("confident_wrong", marks).value)
    assert math.isnan(estimate("evidence_hit", marks).low)
    assert all(math.isnan(estimate(metric, mark([], [])).value) for metric in METRICS)


def test_intervals_against_plain_resampling() -> None:
    marks = marked(random_pairs(80, 1))
    rng = np.random.default_rng(7)
    for metric in ("category_acc", "evidence_hit", "macro_f1"):
        plain = [
            estimate(metric, marks.select([int(i) for i in rng.integers(0, 80, 80)]), resamples=1).value
            for _ in range(400)
        ]
        got = estimate(metric, marks)
        assert (got.low, got.high) == pytest.approx(np.percentile(plain, [2.5, 97.5]), abs=0.03)
        assert got.low <= got.value <= got.high


def test_equal_seeds_give_equal_intervals() -> None:
    marks = marked(random_pairs(30, 2))
    assert estimate("macro_f1", marks, seed=4) == estimate("macro_f1", marks, seed=4)
    assert estimate("macro_f1", marks, seed=4) != estimate("macro_f1", marks, seed=5)


def test_paired_difference() -> None:
    labels = [label("a")] * 40
    good = mark(labels, [Prediction("a")] * 40)
    worse = mark(labels, [Prediction("a" if i % 4 else "b") for i in range(40)])
    got = difference("category_acc", good, worse)
    assert got.value == pytest.approx(0.25)
    assert 0.05 < got.low < 0.25 < got.high < 0.5
    assert difference("category_acc", good, good).high == 0
    with pytest.raises(ValueError, match="same logs"):
        difference("category_acc", good, mark([label("b")] * 40, [Prediction("a")] * 40))


def test_mcnemar_by_hand() -> None:
    first, second = np.array([1.0] * 9 + [0]), np.array([0.0] * 8 + [1, 1])
    got = mcnemar(first, second)
    assert (got.only_first, got.only_second) == (8, 1)
    assert got.p == pytest.approx(2 * (1 + 9) / 2**9)
    assert mcnemar(first, first).p == 1
    assert mcnemar(np.ones(5000), np.zeros(5000)).p == 0


def test_confusions_most_frequent_first() -> None:
    marks = mark([label(x) for x in "aabbb"], [Prediction(x) for x in "bacca"])
    assert confusions(marks) == [("b", "c", 2), ("a", "b", 1), ("b", "a", 1)]
