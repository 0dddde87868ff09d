"""The horizontal axis: time where the log tells it, else the order of lines; long quiet stretches are shortened."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ddpclassify.language import say
from ddpclassify.types import Event, Folded, Line

Mode = Literal["time", "line", "file"]

UNITS = {"d": 86400, "h": 3600, "min": 60, "s": 1}
_TIMED = 0.8  # share of the events that must bear a time
_CAPTIONS: dict[Mode, str] = {
    "time": "Time from left to right; quiet stretches are shortened.",
    "line": "Line order from left to right (the log does not tell the time of every failure); "
    "long stretches without news are shortened.",
    "file": "Lines of each file from left to right; without times, files can't be compared with each other.",
}


@dataclass(frozen=True)
class Tick:
    """A mark below the axis at `x` (0 to 1); `gap` stands in a shortened stretch, `first` at the first cause."""

    x: float
    label: str
    gap: bool = False
    first: bool = False


class Axis:
    """Maps lines to positions from 0 to 1.

    Points that follow each other closely form a run. A run's width grows with the logarithm of its points, a
    stretch's between runs with the logarithm of its length, so that a burst of failures after ten quiet minutes stays
    as readable as the failure before them.
    """

    def __init__(self, folded: Folded, causes: Iterable[Event], points: Iterable[Line]) -> None:
        log = folded.events.log
        causes = list(causes)
        self.mode: Mode = _mode(folded, causes)
        self._times: dict[tuple[int, int], float] = {}
        if self.mode == "time":
            # A line without a time has that of the line before it; the first lines that of the first that has one.
            last = {line.file: line.time for line in reversed(log.lines) if line.time is not None}
            for line in log.lines:
                if line.time is not None:
                    last[line.file] = line.time
                if line.file in last:
                    self._times[line.file, line.number] = last[line.file]
        keys = sorted({k for line in points if (k := self.key(line)) is not None})
        self._keys = keys or [0.0]
        self._xs = self._place(self._keys)
        self._first = min((k for event in causes if (k := self.key(event.line)) is not None), default=None)

    @property
    def caption(self) -> str:
        return say(_CAPTIONS[self.mode])

    def key(self, line: Line) -> float | None:
        """Return where a line stands on the unshortened axis; `None` when it can't be told."""
        if self.mode == "time":
            return self._times.get((line.file, line.number))
        return float(line.number)

    def x(self, key: float) -> float:
        """Return the position of a key between 0 and 1."""
        at = bisect_left(self._keys, key)
        if at < len(self._keys) and self._keys[at] == key:
            return self._xs[at]
        if at == 0:
            return self._xs[0]
        if at == len(self._keys):
            return self._xs[-1]
        low, high = self._keys[at - 1], self._keys[at]
        return self._xs[at - 1] + (self._xs[at] - self._xs[at - 1]) * (key - low) / (high - low)

    def _place(self, keys: list[float]) -> list[float]:
        span = keys[-1] - keys[0]
        unit = 1.0 if self.mode == "time" else 10.0
        apart = max(2.0 if self.mode == "time" else 12.0, span / 200)
        cuts = [0, *(i for i in range(1, len(keys)) if keys[i] - keys[i - 1] > apart), len(keys)]
        self.runs = [(cuts[i], cuts[i + 1]) for i in range(len(cuts) - 1)]
        xs: list[float] = []
        at = 0.0
        for start, end in self.runs:
            if start:
                at += 0.8 + 0.6 * math.log10(1 + (keys[start] - keys[start - 1]) / unit)
            n, length = end - start, keys[end - 1] - keys[start]
            width = 0.0 if n == 1 else 0.6 + 0.9 * math.log2(n)
            for i in range(start, end):
                even = (i - start) / max(1, n - 1)
                true = (keys[i] - keys[start]) / length if length else 0.0
                xs.append(at + width * (even + true) / 2)
            at += width
        return [x / at for x in xs] if at else [0.5] * len(xs)

    def ticks(self) -> list[Tick]:
        """Return a tick at the first cause, at the start of each run, and in each shortened stretch."""
        first = self._first
        out = [] if first is None else [Tick(self.x(first), self.label(first), first=True)]
        for number, (start, end) in enumerate(self.runs):
            if number:
                before = self.runs[number - 1][1] - 1
                length = self._keys[start] - self._keys[before]
                out.append(Tick((self._xs[before] + self._xs[start]) / 2, self._length(length), True))
            out.append(Tick(self._xs[start], self.label(self._keys[start])))
            if end - start > 1 and end == len(self._keys):
                out.append(Tick(self._xs[end - 1], self.label(self._keys[end - 1])))
            if self._xs[end - 1] - self._xs[start] > 0.3:
                inner = {start + (end - start) * part // 5 for part in range(1, 5)}
                out += [Tick(self._xs[i], self.label(self._keys[i])) for i in sorted(inner)]
        return out

    def label(self, key: float) -> str:
        """Return a key for people: a time of day, or a line number."""
        if self.mode != "time":
            return say("line {lines}", lines=f"{key:.0f}")
        seconds = int(key % 86400)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def _length(self, length: float) -> str:
        if self.mode != "time":
            return say("{n} lines", n=f"{length - 1:,.0f}")
        for word, unit in UNITS.items():
            if length >= 1.5 * unit or unit == 1:
                return f"{length / unit:.3g} {say(word)}"
        return ""


def _mode(folded: Folded, causes: list[Event]) -> Mode:
    """Times are used when nearly all failures bear one, the cause among them; a file's lines share its times."""
    log = folded.events.log
    events = [e for f in folded.failures if f.kind != "error_line" for e in f.events] or list(folded.events.events)
    timed = sum(e.line.time is not None for e in events)
    if len(log.files) > 1:
        dated = {line.file for line in log.lines if line.time is not None}
        return "time" if {e.line.file for e in events} <= dated else "file"
    if events and timed >= _TIMED * len(events) and all(e.line.time is not None for e in causes):
        return "time"
    return "line"


def thin(ticks: list[Tick], width: float, room: float = 7.0) -> list[Tick]:
    """Leave out labels that would overlap or repeat, `room` units a character; the cause goes first, gaps go last."""
    kept: list[tuple[float, float]] = []
    out = []
    for tick in sorted(ticks, key=lambda t: (not t.first, t.gap, t.x)):
        half = (len(tick.label) + 4 * tick.gap) * room / 2 + 6
        # as the picture does: at the edges labels stand inside
        centre = min(max(tick.x * width, half), width - half)
        low, high = centre - half, centre + half
        at = bisect_right(kept, (low, high))
        if (at and kept[at - 1][1] > low) or (at < len(kept) and kept[at][0] < high):
            continue
        kept.insert(at, (low, high))
        out.append(tick)
    out.sort(key=lambda t: t.x)
    return [t for i, t in enumerate(out) if t.gap or not i or t.label != out[i - 1].label]
