"""Which log to label next: one whose diagnosis is least certain, and that is least like those labelled already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpclassify.types import Diagnosis

__all__ = ["doubt", "next_to_label", "novelty"]


def doubt(diagnosis: Diagnosis) -> float:
    """Return how close the second category comes to the first, in [0, 1]; 1 where they are even."""
    odds = [each["probability"] for each in diagnosis.candidates[:2]]
    return 1.0 - (odds[0] - (odds[1] if len(odds) > 1 else 0.0)) if odds else 1.0


def novelty(signatures: frozenset[str], seen: Sequence[frozenset[str]]) -> float:
    """Return how unlike a log's failures are to the most alike of those seen: 1 less the Jaccard index.

    >>> novelty(frozenset("ab"), [frozenset("bc"), frozenset("x")])
    0.6666666666666667
    """
    return min((1.0 - len(signatures & other) / len(signatures | other or {""}) for other in seen), default=1.0)


def next_to_label(diagnoses: Mapping[str, Diagnosis], labelled: Sequence[Diagnosis]) -> str:
    """Return the log whose label teaches most: doubt times novelty, each at least a little; the first of equals."""
    seen = [_signatures(each) for each in labelled]

    def worth(log: str) -> float:
        found = diagnoses[log]
        return (0.1 + doubt(found)) * (0.1 + novelty(_signatures(found), seen))

    return max(sorted(diagnoses), key=worth)


def _signatures(diagnosis: Diagnosis) -> frozenset[str]:
    return frozenset(each["signature"] for each in diagnosis.failures)
