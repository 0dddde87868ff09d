"""Follow a job's log, and speak once a failure or a hang is clear."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpclassify.api import Model
from ddpclassify.diagnosis import decide
from ddpclassify.events import extract
from ddpclassify.features import describe
from ddpclassify.fold import fold
from ddpclassify.model import answer
from ddpclassify.ranks import attribute
from ddpclassify.read.decode import decode
from ddpclassify.redact import mask, redact
from ddpclassify.split.owners import Owners
from ddpclassify.types import Diagnosis, Folded
from ddpclassify.watch.follow import Follower
from ddpclassify.watch.silence import Hang, Silence

__all__ = ["News", "Watcher"]

_HEARD = 1 << 20  # bytes at a look whose lines are listened to one by one, of all files together: their ends
_SHARE = 10  # a diagnosis may take one part in so many of the time
_PATIENCE = 6  # so many times longer must an unknown failure last: what it is may yet come
_GOES_ON = 3  # looks in a row that see further steps after a failure: peers of a dead rank take a step or two at most


@dataclass(frozen=True)
class News:
    """What there is to say.

    `event` is "failure", "changed" (the diagnosis is another now), "recovered" (the job goes on after all), "hang",
    "resumed" (it was none), or "quiet" (nobody writes: no news yet).
    """

    event: str
    diagnosis: Diagnosis | None = None
    folded: Folded | None = None
    hang: Hang | None = None
    seconds: float = 0.0
    last: tuple[tuple[int, str], ...] = ()  # the last line of each silent rank


class Watcher:
    """Looks at a log again and again.

    Parameters
    ----------
    log : a file or a folder, which need not be there yet
    sure : least probability that it is a failure at all, for it to be spoken of
    settle : seconds that a diagnosis must stay the same, for what follows the first error to come in
    hang : seconds without a line that are long
    redact : mask secrets
    """

    def __init__(
        self,
        log: Path,
        model: Model,
        sure: float = 0.95,
        settle: float = 5.0,
        hang: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        *,
        redact: bool = False,
    ) -> None:
        self.redact = redact
        self.model, self.sure, self.settle, self.clock = model, sure, settle, clock
        self.follower, self.silence = Follower(log), Silence(hang)
        self.owners: Owners | None = None
        self.owners_at = (0, 0)  # the follower's list of files and its lines when the owners were found
        self.marks, self.grown = 0, False  # as of the last diagnosis; whether anything came since
        self.looked, self.took = float("-inf"), 0.0
        self.answer: tuple[Folded, Diagnosis] | None = None
        self.failed = 0.0  # probability that something has failed, whatever it is
        self.since = float("-inf")
        self.course = Course()
        self.spoken: tuple[Any, ...] | None = None
        self.hanging: tuple[int, ...] = ()
        self.was_quiet = False

    def look(self) -> list[News]:
        """Read what is new, and return what there is to say of it."""
        now, begin = self.clock(), not self.follower.n_lines
        pieces = self.follower.poll()
        self._listen(pieces, now, begin)
        self.grown |= bool(pieces)
        # A job that goes on after a failure may have recovered, though its lines bear no marks.
        again = self.grown and self._troubled() and now - self.looked >= self.settle / 2
        if (again or self.follower.marks != self.marks) and now - self.looked >= _SHARE * self.took:
            self._diagnose(now)
        said = self._failure(now)
        return said or ([] if self.spoken else self._silence(now))

    def _troubled(self) -> bool:
        return self.answer is not None and self.answer[1].category != "no_failure"

    def _listen(self, pieces: list[tuple[int, bytes]], now: float, begin: bool) -> None:
        if not pieces:
            return
        self.was_quiet = False
        version, n_lines = self.follower.version, self.follower.n_lines
        if self.owners is None or version != self.owners_at[0] or n_lines > 2 * self.owners_at[1]:
            self.owners, self.owners_at = Owners(self.follower.excerpt()), (version, n_lines)
        for file, end in _ends(pieces):
            for line in end.splitlines():
                self.silence.heard(self.owners.owner(file, decode(line)).rank, now, line[:500], begin)

    def _diagnose(self, now: float) -> None:
        started = time.monotonic()
        self.marks, self.grown, self.looked = self.follower.marks, False, now
        excerpt = self.follower.excerpt()
        described = describe(fold(extract(attribute(redact(excerpt) if self.redact else excerpt))))
        answers = answer(described, self.model.parts)
        diagnosis = decide(described, answers, self.model.card)
        self.failed = 1 - answers.category.get("no_failure", 0.0)
        if self.answer is None or _key(diagnosis) != _key(self.answer[1]):
            self.since = now
        self.answer = described.folded, diagnosis
        self.course.note(described.folded, diagnosis)
        self.took = time.monotonic() - started

    def _failure(self, now: float) -> list[News]:
        if self.answer is None:
            return []
        folded, diagnosis = self.answer
        if now - self.since < self.settle * (_PATIENCE if diagnosis.category == "unknown" else 1):
            return []
        healthy = not self._troubled() or self.course.further >= _GOES_ON
        key = None if healthy else _key(diagnosis)
        if key == self.spoken or not (healthy or self.failed >= self.sure):
            return []
        event = "recovered" if healthy else "changed" if self.spoken else "failure"
        self.spoken = key
        return [News(event, diagnosis, folded)]

    def _silence(self, now: float) -> list[News]:
        hang = self.silence.hang(now)
        if hang and not set(hang.silent) <= set(self.hanging):
            self.hanging = hang.silent
            last = tuple((rank, self._text(rank)) for rank in hang.silent[:8])
            return [News("hang", hang=hang, seconds=hang.seconds, last=last)]
        if self.hanging and all(now - self.silence.voices[rank].last < self.silence.limit for rank in self.hanging):
            self.hanging = ()
            return [News("resumed")]
        quiet = self.silence.quiet(now)
        if quiet is not None and not self.was_quiet:
            self.was_quiet = True
            return [News("quiet", seconds=quiet)]
        return []

    def _text(self, rank: int) -> str:
        text = decode(self.silence.voices[rank].text)
        return mask(text) if self.redact else text


class Course:
    """Whether the training goes on after its last failure; no end mark is needed to see that.

    `further` counts the looks in a row at which those who should be dead, or where they write no steps anybody, had
    come to another step.
    """

    def __init__(self) -> None:
        self.further = 0
        self.failed: tuple[int, int] | None = None  # file and line of the last report of the cause
        self.steps: dict[int | None, int] = {}

    def note(self, folded: Folded, diagnosis: Diagnosis) -> None:
        """Take in what a look at the log says."""
        causes = {row["signature"] for row in diagnosis.failures if row["role"] == "cause"}
        lines = [event.line for f in folded.failures if f.signature in causes for event in f.events]
        failed = max(((line.file, line.number) for line in lines), default=None)
        progress = folded.events.progress
        wanted: list[int | None] = [rank for rank in diagnosis.culprit_ranks if rank in progress]
        wanted = wanted or list(progress)
        steps = {rank: progress[rank][0] for rank in wanted}
        if failed != self.failed or failed is None:
            self.further = 0
        elif any(step != self.steps.get(rank, step) for rank, step in steps.items()):
            self.further += 1
        self.failed, self.steps = failed, {rank: step for rank, (step, _) in progress.items()}


def _ends(pieces: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield the last lines of each file; a log that is long already when the watch begins is not heard in full."""
    share = max(_HEARD // len({file for file, _ in pieces}), 1 << 12)
    ends: dict[int, bytes] = {}
    for file, piece in reversed(pieces):
        if len(end := ends.get(file, b"")) < share:
            ends[file] = piece[-(share - len(end)) :] + end
    yield from ends.items()


def _key(diagnosis: Diagnosis) -> tuple[Any, ...]:
    return diagnosis.category, diagnosis.scope, tuple(diagnosis.culprit_ranks)
