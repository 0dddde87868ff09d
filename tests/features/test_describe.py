"""The features say what a person would point at: who waits, who is silent, whose words they are."""

from __future__ import annotations

from pathlib import Path

from ddpclassify import taxonomy
from ddpclassify.events import extract
from ddpclassify.features import Described, describe
from ddpclassify.features.culprits import _GROUPS, rank_features
from ddpclassify.fold import fold
from ddpclassify.ranks import attribute
from ddpclassify.read import read

CASES = Path(__file__).parent.parent / "cases"


def described(name: str) -> Described:
    return describe(fold(extract(attribute(read(CASES / name)))))


def test_the_rank_that_never_waits_is_silent() -> None:
    seen = described("silent-rank-of-eight.log").view
    assert seen.world == 8
    assert sorted(seen.waiting) == [0, 1, 2, 4, 5, 6, 7]
    assert seen.silent == {3}


def test_a_silent_rank_has_features_of_its_own() -> None:
    log = described("silent-rank-of-eight.log")
    rows = rank_features(log.folded, log.view, list(log.folded.failures[:1]), "collective_timeout")
    assert set(rows) == set(range(8))
    alone = set(rows[3]) - set().union(*(rows[rank] for rank in rows if rank != 3))
    assert any("silent" in feature for feature in alone)


def test_words_are_those_of_the_failure_without_its_numbers() -> None:
    log = described("oom-one-of-eight-then-watchdogs.log")
    at = next(i for i, failure in enumerate(log.folded.failures) if "OutOfMemory" in failure.exception)
    words = log.tokens[at]
    assert {"w:memory", "p:out of", "f0:forward"} <= set(words)
    assert not [word for word in words if "79.15" in word]
    assert len(log.tokens) == len(log.places) == len(log.folded.failures)


def test_groups_are_of_real_categories() -> None:
    assert set(_GROUPS) <= set(taxonomy.names())
