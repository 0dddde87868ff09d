"""What is normal for a job: failures that its good runs show as well count less for the cause."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from ddpclassify.features import Described, describe
from ddpclassify.fold.likeness import likeness
from ddpclassify.model.linear import Part
from ddpclassify.types import Folded

DISCOUNT = 4.0
"""What being normal costs a failure, in log odds of being the cause (``benchmarks/healthy.py``)."""


@dataclass(frozen=True)
class GoodRun:
    """What a good run of a job shows.

    Attributes
    ----------
    source : its path
    category : what the model says of it: a good run should be ``no_failure``
    seen : the `likeness` of each of its failures
    digest : of its lines
    """

    source: str
    category: str
    seen: frozenset[Hashable]
    digest: bytes

    @classmethod
    def of(cls, folded: Folded, category: str) -> GoodRun:
        """Return what a folded log shows."""
        return cls(folded.events.log.source, category, frozenset(map(likeness, folded.failures)), _digest(folded))

    def is_same_log(self, folded: Folded) -> bool:
        """Whether another log has the same lines, wherever it lies."""
        return self.digest == _digest(folded)


def set_apart(described: Described, cause: Part, runs: Sequence[GoodRun]) -> Described:
    """Set apart the failures that good runs show as well; the models then see the log as if it lacked them.

    A failure stays when no failure that no good run shows is likelier the cause, even after `DISCOUNT`: the cause's own
    exception may have been survived in a good run, and where a good run shows all failures, it tells nothing.

    Parameters
    ----------
    cause : the model of which failure is the cause
    runs : good runs; one that is this very log is left out
    """
    folded = described.folded
    seen = frozenset[Hashable]().union(*(run.seen for run in runs if not run.is_same_log(folded)))
    for failure in folded.failures:
        failure.seen_in_healthy = likeness(failure) in seen
    scores = [cause.scores(w, p)[0] for w, p in zip(described.tokens, described.places, strict=True)]
    told = list(zip(folded.failures, scores, strict=True))
    best = max((score for failure, score in told if not failure.seen_in_healthy), default=float("-inf"))
    apart = tuple(f for f, score in told if f.seen_in_healthy and score - DISCOUNT < best)
    if not apart:
        return described
    gone = {id(event) for failure in apart for event in failure.events}
    events = replace(folded.events, events=tuple(e for e in folded.events.events if id(e) not in gone))
    left = {id(failure) for failure in apart}
    kept = tuple(f for f in folded.failures if id(f) not in left)
    return describe(replace(folded, events=events, failures=kept, apart=apart))


def _digest(folded: Folded) -> bytes:
    log = folded.events.log
    digest = hashlib.blake2b(f"{log.n_lines} {log.n_bytes}".encode(), digest_size=16)
    for line in log.lines:
        digest.update(f"{line.number} {line.raw}\n".encode("utf-8", "replace"))
    return digest.digest()
