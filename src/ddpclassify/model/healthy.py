"""What is normal for a job: failures that its good runs show as well count less for the cause."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ddpclassify.features import Described, describe
from ddpclassify.fold.likeness import likeness
from ddpclassify.model.answers import Parts, answer
from ddpclassify.types import Folded

CLEAR = 0.8
"""Score from which what is left of a log holds a failure that is clearly the cause (``benchmarks/healthy.py``)."""
WELL = 0.8
"""Probability of no failure from which a log that states its end, and shows only what good runs show, is well."""


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


def set_apart(described: Described, parts: Parts, runs: Sequence[GoodRun]) -> Described:
    """Set apart the failures that good runs show as well; the models then see the log as if it lacked them.

    That is done where one of the others is clearly the cause, or where the log ended well. Otherwise all of them stay
    and are only marked: the job may have survived in a good run what it died of in this one, and where a good run shows
    all failures of the log, it tells nothing.

    Parameters
    ----------
    runs : good runs; one that is this very log is left out
    """
    folded = described.folded
    runs = [run for run in runs if not run.is_same_log(folded)]
    seen = frozenset[Hashable]().union(*(run.seen for run in runs))
    for failure in folded.failures:
        failure.seen_in_healthy = likeness(failure) in seen
    if not any(failure.seen_in_healthy for failure in folded.failures):
        return described
    rest = _without_usual(folded)
    found = answer(rest, parts)
    if max(found.cause, default=0.0) > CLEAR:
        return rest
    # A log that breaks off may have died of what the good run survived.
    ended = folded.events.finished and all(run.category == "no_failure" for run in runs)
    return rest if ended and found.category.get("no_failure", 0.0) > WELL else described


def _without_usual(folded: Folded) -> Described:
    """The log as if it lacked what is marked, events and failures."""
    apart = tuple(f for f in folded.failures if f.seen_in_healthy)
    gone = {id(event) for failure in apart for event in failure.events}
    events = folded.events._replace(events=tuple(e for e in folded.events.events if id(e) not in gone))
    kept = tuple(f for f in folded.failures if not f.seen_in_healthy)
    return describe(folded._replace(events=events, failures=kept, apart=apart))


def _digest(folded: Folded) -> bytes:
    log = folded.events.log
    digest = hashlib.blake2b(f"{log.n_lines} {log.n_bytes}".encode(), digest_size=16)
    for line in log.lines:
        digest.update(f"{line.number} {line.raw}\n".encode("utf-8", "replace"))
    return digest.digest()
