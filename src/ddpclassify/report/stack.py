"""A traceback for a reader: the code of its frames from the log, runs of library frames folded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ddpclassify.patterns import lazy
from ddpclassify.types import Attributed, Event, Folded, Frame, Line

_LONGEST = 2000  # lines looked through for the code of one traceback
_GAP = lazy(r"[ \t]{2,}")  # between the copies of a line of code that several ranks printed at once


class Call(NamedTuple):
    """A frame with its source line, where the log shows it."""

    frame: Frame
    code: str = ""

    @property
    def place(self) -> str:
        """``train.py:48 in main``"""
        name = self.frame.path.replace("\\", "/").rpartition("/")[2]
        return f"{name}:{self.frame.line}" + (f" in {self.frame.function}" if self.frame.function else "")


class Run(NamedTuple):
    """Frames in a row, all of the user or all of libraries."""

    calls: tuple[Call, ...]
    user: bool

    @property
    def packages(self) -> str:
        """The libraries passed through, in order: ``torch, torchvision``."""
        return ", ".join(dict.fromkeys(package(call.frame.path) for call in self.calls))


def package(path: str) -> str:
    """Name the package of a library's file.

    >>> package("/opt/lib/python3.11/site-packages/torch/nn/module.py")
    'torch'
    >>> package("/usr/lib/python3.11/runpy.py")
    'python'
    """
    parts = path.replace("\\", "/").split("/")
    for home in ("site-packages", "dist-packages"):
        if home in parts[:-1]:
            return parts[parts.index(home) + 1].removesuffix(".py")
    return "python" if any(p.startswith("python") for p in parts) or path.startswith("<") else parts[0] or parts[-1]


class Book:
    """Looks up kept lines by their place in the log."""

    def __init__(self, log: Attributed) -> None:
        self.lines = log.lines

    @cached_property
    def _keys(self) -> list[tuple[int, int]]:
        return [(line.file, line.number) for line in self.lines]

    def index(self, file: int, number: int) -> int:
        """Return the place of the first kept line at or after a number."""
        return bisect_left(self._keys, (file, number))

    def around(self, file: int, number: int, before: int = 3, after: int = 3) -> Sequence[Line]:
        """Return the kept lines near one, of the same file; further than 12 lines away nothing is near."""
        at = self.index(file, number)
        near = self.lines[max(0, at - before) : at + 1 + after]
        return [line for line in near if line.file == file and abs(line.number - number) <= 12]

    def stack(self, event: Event, others: Sequence[Event]) -> list[Call]:
        """Return the calls that led to an exception, outermost first, from the user's code on where the log shows it.

        Python prints of an exception that another one wraps, or that a worker process passes on, only the frames inside
        the library; the way there stands in the traceback that it is chained to.
        """
        calls = self.calls(event)
        if not any(c.frame.user for c in calls):
            for other in _chained(event, others):
                above = self.calls(other)
                depth = max((i for i, c in enumerate(above, 1) if c.frame.user), default=0)
                if depth:
                    return [*above[:depth], *calls]
        return calls

    def calls(self, event: Event) -> list[Call]:
        """Return the frames of a traceback, outermost first, each with the source line printed below it.

        A frame that follows itself is told once: a recursion, or several ranks that wrote over each other.
        """
        if event.first is None:
            return _once([Call(f) for f in event.frames])
        start, end = self.index(event.first.file, event.first.number), self.index(event.line.file, event.line.number)
        mine = [
            line.text.strip()
            for line in self.lines[start : min(end, start + _LONGEST)]
            if line.source == event.line.source
        ]
        out, at = [], 0
        for frame in event.frames:
            head = f'File "{frame.path}", line {frame.line}'
            found = next((i for i in range(at, len(mine)) if head in mine[i]), None)
            code = ""
            if found is not None:
                at = found + 1
                if at < len(mine) and not mine[at].startswith('File "') and mine[at].strip("~^ "):
                    copies = set(_GAP.split(mine[at]))
                    code = copies.pop() if len(copies) == 1 else mine[at]
            out.append(Call(frame, code))
        return _once(out)


def _once(calls: Sequence[Call]) -> list[Call]:
    """Leave out calls that are the one before; of their code the shortest is least mixed with another's."""
    out: list[Call] = []
    for call in calls:
        if not out or out[-1].frame != call.frame:
            out.append(call)
        else:
            out[-1] = min((c for c in (out[-1], call) if c.code), key=lambda c: len(c.code), default=call)
    return out


def _chained(event: Event, others: Sequence[Event]) -> Iterator[Event]:
    """Yield the tracebacks that an exception is chained to, nearest first.

    Those that wrap it follow it; the one that passes it on from a worker process ends where it begins.
    """
    mine = [e for e in others if e.frames and e.line.source == event.line.source]
    at = next((i for i, e in enumerate(mine) if e is event), None)
    if at is None:
        return
    for later in mine[at + 1 :]:
        if later.chained != "outer":
            break
        yield later
    before = mine[at - 1] if at else None
    if before and event.first and (before.line is event.first or (before.chained == "outer" and event.chained)):
        yield before


def origin(folded: Folded, cause: Mapping[str, Any] | None) -> list[Call]:
    """Return the calls that led to a failure of the diagnosis, or none."""
    failure = next((f for f in folded.failures if cause and f.signature == cause["signature"]), None)
    if failure is None or not failure.first.frames:
        return []
    return Book(folded.events.log).stack(failure.first, folded.events.events)


def runs(calls: Sequence[Call]) -> list[Run]:
    """Group frames into runs of the user's and of libraries'.

    >>> frames = [Frame("a.py", 1, "f", True), Frame("/x/torch/b.py", 2, "g", False), Frame("/x/torch/b.py", 3, "h", False)]
    >>> [(len(run.calls), run.user) for run in runs([Call(f) for f in frames])]
    [(1, True), (2, False)]
    """  # noqa: E501
    out: list[list[Call]] = []
    for call in calls:
        if out and out[-1][-1].frame.user == call.frame.user:
            out[-1].append(call)
        else:
            out.append([call])
    return [Run(tuple(run), run[0].frame.user) for run in out]


def innermost(calls: Sequence[Call]) -> Call | None:
    """Return the innermost frame of the user's own code, else the innermost of all."""
    return next((c for c in reversed(calls) if c.frame.user), calls[-1] if calls else None)
