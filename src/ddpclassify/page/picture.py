"""The swim-lane picture and the map of ranks, as SVG that needs no script."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from ddpclassify.language import say
from ddpclassify.page.axis import thin
from ddpclassify.page.lanes import Lane, Mark, Story
from ddpclassify.page.markup import Html, join, tag, text
from ddpclassify.report.words import place, ranges, rank_words, shorten, what

WIDTH, LEFT, RIGHT = 1000, 168, 44
PLOT = WIDTH - LEFT - RIGHT
HEAD, ROW, FOOT = 74, 30, 34
LOW_HEAD = 10  # without the curve of the spread
_APART = 11.0  # units between neighbouring marks of a lane
_NO_LINE = "no line of note marked with this rank"
_LABEL = 21  # characters of a lane's name
_ORDER = {"minor": 0, "teardown": 1, "followed": 2, "cause": 3}  # the weightiest is drawn last, on top
STANDINGS = {
    "cause": "The failure it began with",
    "followed": "What followed in other ranks",
    "teardown": "Launcher and clean-up",
    "minor": "Other error lines",
}
SHORT = {"cause": "cause", "followed": "followed", "teardown": "launcher", "minor": "other"}

SYMBOLS = tag(
    "svg",
    tag(
        "defs",
        tag("path", id="g-cause", d="M0-8 8 0 0 8-8 0z"),
        tag("circle", id="g-followed", r=5.5),
        tag("path", id="g-teardown", d="M-4.5-4.5h9v9h-9z"),
        tag("path", id="g-minor", d="M-1.5-5h3v10h-3z"),
    ),
    class_="symbols",
    aria_hidden="true",
    width=0,
    height=0,
)


def glyph(standing: str) -> Html:
    """Return the small mark of a standing, for legends and headings."""
    use = tag("use", href=f"#g-{standing}")
    return tag("svg", use, class_=f"glyph {standing}", viewBox="-10 -10 20 20", width=16, height=16, aria_hidden="true")


def picture(story: Story, name: str) -> Html:
    """Return the swim lanes of one log; `name` starts the ids of its parts."""
    head = HEAD if story.ordered else LOW_HEAD
    height = head + ROW * len(story.lanes) + FOOT
    bottom = height - FOOT
    rows = [_row(lane, head + ROW * i + ROW / 2, name, story) for i, lane in enumerate(story.lanes)]
    grounds = [
        tag("rect", class_="culprit" if lane.culprit else None, y=head + ROW * i, width=WIDTH, height=ROW, rx=4)
        for i, lane in enumerate(story.lanes)
    ]
    return tag(
        "svg",
        tag("title", say("Failures by rank"), id=f"{name}-title"),
        tag("desc", describe(story), id=f"{name}-desc"),
        tag("g", *grounds, class_="grounds"),
        _axis(story, head - 4, bottom),
        _spread(story) if story.ordered else "",
        _first(story, bottom) if story.ordered else "",
        *rows,
        class_="lanes",
        viewBox=f"0 0 {WIDTH} {height}",
        role="group",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def describe(story: Story) -> str:
    """Return in one or two sentences what the picture shows."""
    n, hurt = len(story.ranks), len(story.begins)
    if not n:
        return say("The log marks no ranks; all failures stand in one lane.")
    first = min(story.begins.items(), key=lambda kv: kv[1], default=None)
    quiet = n - len(story.heard)
    folded = "Ranks: {n}, in {lanes} lanes; ranks with the same story share one."
    parts = [
        say(folded if story.folded else "Ranks: {n}, one lane each.", n=f"{n:,}", lanes=len(story.lanes)),
        say("Ranks that report a failure: {n}.", n=f"{hurt:,}"),
        say("The first report is of rank {rank}.", rank=first[0]) if first and story.ordered else "",
        say("Ranks without a line of note: {n}.", n=f"{quiet:,}") if quiet else "",
    ]
    return " ".join(filter(None, parts))


def _px(x: float) -> float:
    return round(LEFT + x * PLOT, 1)


def _axis(story: Story, top: int, bottom: int) -> Html:
    parts = []
    for tick in thin(story.axis.ticks(), PLOT):
        x = _px(tick.x)
        # a label at the very edge would be cut off
        anchor = "start" if tick.x < 0.04 else "end" if tick.x > 0.96 else "middle"
        if tick.gap:
            parts.append(tag("text", f"⋯ {tick.label} ⋯", class_="gap", x=x, y=bottom + 20, text_anchor="middle"))
        else:
            parts.append(tag("path", class_="tick", d=f"M{x} {top}V{bottom + 4}"))
            parts.append(tag("text", tick.label, x=x, y=bottom + 20, text_anchor=anchor))
    return tag("g", *parts, class_="axis", aria_hidden="true")


def _spread(story: Story) -> Html:
    """A rising step for each rank that begins to report a failure."""
    top, base = 26, HEAD - 10
    total = len(story.begins)
    steps = sorted(story.begins.values())
    d, last = f"M{_px(0)} {base}", None
    for i, x in enumerate(steps):
        if i + 1 < total and round(_px(steps[i + 1])) == round(_px(x)):
            continue
        if _px(x) != last:
            d += f"H{_px(x)}"
        d += f"V{round(base - (base - top) * (i + 1) / total, 1)}"
        last = _px(x)
    d += f"H{_px(1)}V{base}z"
    return tag(
        "g",
        tag("path", d=d, class_="area"),
        tag("text", say("ranks that report"), x=LEFT - 12, y=base - 16, text_anchor="end", class_="name"),
        tag("text", say("a failure, so far"), x=LEFT - 12, y=base - 2, text_anchor="end", class_="name"),
        tag("text", f"{total:,}", x=_px(1) + 6, y=top + 9, class_="count"),
        class_="spread",
        aria_hidden="true",
    )


def _first(story: Story, bottom: int) -> Html:
    if story.first is None:
        return Html("")
    x, right = _px(story.first[0]), story.first[0] > 0.75
    return tag(
        "g",
        tag("path", d=f"M{x} 14V{bottom}"),
        tag("text", story.first[1], x=x - 6 if right else x + 6, y=16, text_anchor="end" if right else "start"),
        class_="first",
        aria_hidden="true",
    )


def _row(lane: Lane, y: float, name: str, story: Story) -> Html:
    many = len(lane.ranks) > 1
    label = rank_words(lane.ranks, _LABEL - 6).partition(" (")[0] if lane.ranks else say("launcher, unmarked")
    below = say("{n} ranks", n=f"{len(lane.ranks):,}") if many else (say("culprit") if lane.culprit else "")
    if many and lane.culprit:
        below += ", " + say("culprits")
    parts = [
        tag("text", label, class_="name", x=LEFT - 12, y=y + (-1 if below else 4), text_anchor="end"),
        tag("text", below, class_="below", x=LEFT - 12, y=y + 11, text_anchor="end") if below else "",
        _bar(lane, y),
        *_marks(lane, y, name, story),
    ]
    kind = "lane culprit" if lane.culprit else "lane"
    return tag("g", *parts, class_=kind, data_ranks=ranges(lane.ranks) or "-")


def _bar(lane: Lane, y: float) -> Html:
    """From the first to the last line of the lane's ranks; after its first failure in another colour."""
    if not lane.ranks:
        return tag("path", class_="outside", d=f"M{_px(0)} {y}H{_px(1)}")
    if lane.spoke is None:
        if lane.marks:
            return Html("")
        whose = "no line of note marked with these ranks" if len(lane.ranks) > 1 else _NO_LINE
        return join(
            [
                tag("path", class_="absent", d=f"M{_px(0)} {y}H{_px(1)}"),
                tag("text", say(whose), class_="note", x=_px(0) + 8, y=y - 4),
            ]
        )
    start, end = _px(lane.spoke[0]), _px(lane.spoke[1])
    hurt = lane.trouble
    turn = end if hurt is None else min(max(_px(hurt), start), end)
    parts = []
    if turn > start or hurt is None:
        parts.append(tag("path", class_="alive", d=f"M{start} {y}H{max(turn, start + 0.1)}"))
    if hurt is not None:
        parts.append(tag("path", class_="hurt", d=f"M{turn} {y}H{max(end, turn + 0.1)}"))
    return join(parts)


def _marks(lane: Lane, y: float, name: str, story: Story) -> Iterable[Html]:
    drawn: list[tuple[int, Html]] = []
    at = -math.inf
    for mark in _limited(lane.marks):
        x = max(_px(mark.xs[0]), at + _APART)
        x = min(x, WIDTH - 9)
        at = x
        standing = mark.told.standing
        parts = [tag("title", _hint(mark, lane))]
        rest = [p for p in dict.fromkeys(round(_px(other)) for other in mark.xs[1:]) if p > x + 4]
        if rest:
            parts.append(tag("path", class_="more", d="".join(f"M{p} {y - 5:g}v10" for p in rest)))
        parts.append(tag("use", href=f"#g-{standing}", x=round(x, 1), y=y))
        link = tag(
            "a",
            *parts,
            href=f"#{name}-f{mark.told.number}",
            class_=f"mark {standing}",
            data_kind=standing,
            data_what=mark.told.row["kind"],
            tabindex=None if standing == "cause" or story.folded else "-1",
        )
        drawn.append((_ORDER[standing], link))
    return (html for _, html in sorted(drawn, key=lambda pair: pair[0]))


def _limited(marks: Sequence[Mark]) -> Sequence[Mark]:
    """Of very many marks the weighty ones."""
    room = int(PLOT / _APART / 2)
    if len(marks) <= room:
        return marks
    kept = sorted(marks, key=lambda m: (-_ORDER[m.told.standing], m.xs[0]))[:room]
    return sorted(kept, key=lambda m: m.xs[0])


def _hint(mark: Mark, lane: Lane) -> str:
    who = rank_words(lane.ranks, 40) or say("no rank")
    times = say(" ({n} times)", n=f"{mark.count:,}") if mark.count > 1 else ""
    where = say("from {place}", place=place(None, [mark.told.row["first_line"]]))
    return f"{who}, {where}{times}: {shorten(what(mark.told.row), 160)}"


# The map of ranks: (class, what it means), in the order of its legend.
_STATES = [
    ("c-culprit", "culprit"),
    ("c-early", "reports early"),
    ("c-mid", "reports later"),
    ("c-late", "reports last"),
    ("c-quiet", "reports no failure"),
    ("c-absent", "no line of note"),
]


def rank_map(story: Story, name: str) -> Html:
    """Return all ranks as a grid of cells, coloured by what they report and when."""
    ranks = story.ranks
    wide = 32 if len(ranks) <= 256 else 64 if len(ranks) <= 1024 else 128
    cell = PLOT / wide
    size = round(min(cell * 0.86, 20), 1)
    pitch = round(min(cell, 23), 2)
    top = max(ranks) // wide + 1
    culprits = {r for lane in story.lanes if lane.culprit for r in lane.ranks}
    order = sorted(set(story.begins.values())) if story.ordered else []
    states = _STATES if story.ordered else [(s, "reports a failure" if s == "c-early" else m) for s, m in _STATES]
    cells: dict[str, list[int]] = {state: [] for state, _ in states}
    for rank in ranks:
        cells[_state(rank, story, culprits, order)].append(rank)
    paths = []
    for state, meaning in states:
        if not cells[state]:
            continue
        d = "".join(
            f"M{round(LEFT + (r % wide) * pitch, 1):g} {round(4 + r // wide * pitch, 1):g}h{size}v{size}h-{size}z"
            for r in cells[state]
        )
        title = tag("title", f"{say(meaning)}: {rank_words(cells[state], 200)}")
        paths.append(tag("path", title, d=d, class_=state))
    labels = [
        tag("text", r * wide, x=LEFT - 12, y=round(4 + r * pitch + size - 1, 1), text_anchor="end", class_="name")
        for r in range(0, top, max(1, math.ceil(14 / pitch)))
    ]
    svg = tag(
        "svg",
        tag("title", say("Map of ranks"), id=f"{name}-map-title"),
        tag("desc", "; ".join(f"{say(m)}: {len(cells[s]):,}" for s, m in states if cells[s]), id=f"{name}-map-desc"),
        *labels,
        *paths,
        class_="map",
        viewBox=f"0 0 {WIDTH} {round(top * pitch + 8)}",
        role="img",
        aria_labelledby=f"{name}-map-title {name}-map-desc",
    )
    legend = [
        tag("li", tag("span", class_=f"key {s}"), f"{say(m)} ", tag("b", f"{len(cells[s]):,}"))
        for s, m in states
        if cells[s]
    ]
    return join(
        [
            tag("div", svg, class_="scroll", tabindex=0, role="region", aria_label=say("Map of ranks")),
            tag("ul", *legend, class_="legend"),
        ]
    )


def _state(rank: int, story: Story, culprits: set[int], order: list[float]) -> str:
    if rank in culprits:
        return "c-culprit"
    if rank in story.begins:
        third = bisect_left(order, story.begins[rank]) / max(1, len(order) - 1)
        return "c-early" if third < 1 / 3 else "c-mid" if third < 2 / 3 else "c-late"
    return "c-quiet" if rank in story.heard else "c-absent"


def legend(story: Story) -> Html:
    """Return what the marks and bars of a picture mean."""
    used = {m.told.standing for lane in story.lanes for m in lane.marks}
    items = [tag("li", glyph(s), say(words)) for s, words in STANDINGS.items() if s in used]
    spoken = [lane for lane in story.lanes if lane.spoke]
    shown = (
        ("k-alive", "speaks, no failure yet", any(lane.trouble != lane.spoke[0] for lane in spoken if lane.spoke)),
        ("k-hurt", "speaks, after its first failure", any(lane.trouble is not None for lane in spoken)),
    )
    bars = [tag("li", tag("span", class_=f"key {key}"), text(say(words))) for key, words, there in shown if there]
    return tag("ul", *items, *bars, class_="legend")
