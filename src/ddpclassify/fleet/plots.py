"""Plots over time as SVG: jobs by category, and a small one for each issue. Colours come from the style sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from ddpclassify.page.markup import Html, join, tag

__all__ = ["COLOURS", "Span", "bars", "span", "sparkline"]

COLOURS = 7  # the largest categories have their own, the rest share the last
_MOST = 60  # bars
_WIDTH, _HEIGHT, _LEFT, _BELOW = 960, 220, 44, 22


class Span(NamedTuple):
    """A time axis of so many bars, each of `days` days from `start`."""

    start: date
    days: int
    bars: int

    def bar(self, day: str) -> int:
        """Return the bar of a day."""
        return (date.fromisoformat(day) - self.start).days // self.days

    def label(self, index: int) -> str:
        """Return a bar's first day, and its last when there are several."""
        first = self.start + timedelta(days=index * self.days)
        last = first + timedelta(days=self.days - 1)
        return f"{first}" if self.days == 1 else f"{first} – {last}"


def span(days: Sequence[str]) -> Span | None:
    """Return the axis for days in order; None without any. Jobs of years ago must not flatten those of today.

    >>> span(["2026-11-30", "2026-12-02"])
    Span(start=datetime.date(2026, 11, 30), days=1, bars=3)
    """
    if not days:
        return None
    last = date.fromisoformat(days[-1])
    first = max(date.fromisoformat(days[0]), last - timedelta(days=365))
    step = -(-((last - first).days + 1) // _MOST)
    return Span(first, step, ((last - first).days) // step + 1)


def _binned(axis: Span, days: Mapping[str, int]) -> list[int]:
    out = [0] * axis.bars
    for day, count in days.items():
        if 0 <= (index := axis.bar(day)) < axis.bars:
            out[index] += count
    return out


def bars(axis: Span, series: Sequence[tuple[str, Mapping[str, int]]], title: str) -> Html:
    """Return stacked bars: each series a name and its counts by day; the last colour is shared by what is left."""
    shown = list(series[: COLOURS - 1])
    rest: Counter[str] = Counter()
    for _, days in series[COLOURS - 1 :]:
        rest.update(days)
    if rest:
        shown.append((f"{len(series) - COLOURS + 1} others", rest))
    heights = [_binned(axis, days) for _, days in shown]
    top = max(1, *(sum(column) for column in zip(*heights, strict=True)))
    room, width = _HEIGHT - _BELOW - 8, (_WIDTH - _LEFT) / axis.bars
    parts: list[Html] = []
    for line in sorted({0, top // 2, top}):
        y = f"{8 + room * (1 - line / top):.1f}"
        parts.append(tag("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y, class_="tick"))
        parts.append(tag("text", line, x=_LEFT - 6, y=y, text_anchor="end", dominant_baseline="middle"))
    for index in range(axis.bars):
        base, column = 8.0 + room, []
        for colour, (name, counts) in enumerate(zip((name for name, _ in shown), heights, strict=True)):
            height = room * counts[index] / top
            base -= height
            if height:
                what = tag("title", f"{axis.label(index)}: {name} {counts[index]}")
                place = {"x": f"{_LEFT + index * width:.1f}", "y": f"{base:.1f}", "height": f"{height:.1f}"}
                column.append(tag("rect", what, width=f"{max(width - 1, 0.5):.1f}", class_=f"s{colour}", **place))
        parts.append(join(column))
    for index in sorted({0, axis.bars // 2, axis.bars - 1}):
        anchor = "start" if index == 0 else "end" if index == axis.bars - 1 else "middle"
        x = _LEFT + width * (index + (0 if index == 0 else 1 if anchor == "end" else 0.5))
        day = str(axis.start + timedelta(days=index * axis.days))
        parts.append(tag("text", day, x=f"{x:.1f}", y=_HEIGHT - 5, text_anchor=anchor))
    picture = tag("svg", *parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=title, class_="bars")
    keys = (tag("li", tag("i", "", class_=f"key s{i}"), name) for i, (name, _) in enumerate(shown))
    return join([tag("div", picture, class_="scroll"), tag("ul", *keys, class_="legend")])


def sparkline(axis: Span, days: Mapping[str, int]) -> Html:
    """Return one issue's jobs over time, small enough for a table."""
    counts = _binned(axis, days)
    top = max(1, *counts)
    width = 120 / axis.bars
    rects = (
        tag(
            "rect",
            x=f"{i * width:.1f}",
            y=f"{20 - 20 * n / top:.1f}",
            width=f"{max(width - 0.4, 0.6):.1f}",
            height=f"{20 * n / top:.1f}",
        )
        for i, n in enumerate(counts)
        if n
    )
    return tag("svg", *rects, viewBox="0 0 120 20", class_="spark", role="img", aria_label=f"at most {top} jobs a bar")
