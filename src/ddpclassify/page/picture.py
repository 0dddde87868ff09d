"""The swim-lane picture and the map of ranks, as SVG that needs no script.

Heights and letters are in pixels, positions along a lane in per cent, so that only the lanes give way where the page is
narrow. Names stand left of the picture's own edge, in room that the style sheet keeps.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from ddpclassify.language import say
from ddpclassify.page.axis import thin
from ddpclassify.page.lanes import Lane, Mark, Story, place_of
from ddpclassify.page.markup import Html, join, tag, text
from ddpclassify.report.words import ranges, rank_words, shorten, what

PLOT, NARROW = 640, 210  # the least width of the lanes on a wide page, and on a telephone
HEAD, ROW, FOOT = 74, 30, 34
LOW_HEAD = 10  # without the curve of the spread
_APART = 11.0  # units between neighbouring marks of a lane
_NO_LINE = "no line of note marked with this rank"
_LABEL = 21  # characters of a lane's name
_ORDER = {"minor": 0, "teardown": 1, "followed": 2, "cause": 3}  # the weightiest is drawn last, on top
STANDINGS = {
    "cause": "The failure it began with",
    "followed": "What followed",
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
        tag("rect", class_="culprit" if lane.culprit else None, y=head + ROW * i, height=ROW, rx=4)
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
        height=height,
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


def _at(x: float) -> str:
    return f"{round(100 * x, 2):g}%"


def _stretched(y: float, height: float, *children: Html) -> Html:
    """A band of the picture in units of a thousandth of its width."""
    box = f"0 0 1000 {height:g}"
    return tag("svg", *children, y=y, height=height, width="100%", viewBox=box, preserveAspectRatio="none")


def _name(words: object, y: object, kind: str = "name") -> Html:
    return tag("text", words, class_=kind, x=-13, y=y, text_anchor="end")


def _stroke(kind: str, x1: float, x2: float, y1: float, y2: float) -> Html:
    return tag("line", class_=kind, x1=_at(x1), x2=_at(x2), y1=y1, y2=y2)


def _axis(story: Story, top: int, bottom: int) -> Html:
    parts = []
    ticks = thin(story.axis.ticks(), PLOT)
    narrow = set(thin(ticks, NARROW))
    for tick in ticks:
        wide = "" if tick in narrow else " wide"
        # a label at the very edge would be cut off
        anchor = "start" if tick.x < 0.04 else "end" if tick.x > 0.96 else "middle"
        place = {"x": _at(tick.x), "y": bottom + 20, "text_anchor": "middle" if tick.gap else anchor}
        if tick.gap:
            parts.append(tag("text", f"⋯ {tick.label} ⋯", class_="gap" + wide, **place))
        else:
            parts.append(_stroke("tick" + wide, tick.x, tick.x, top, bottom + 4))
            parts.append(tag("text", tick.label, class_=wide.strip() or None, **place))
    return tag("g", *parts, class_="axis", aria_hidden="true")


def _spread(story: Story) -> Html:
    """A rising step for each rank that begins to report a failure."""
    top, base = 26, HEAD - 10
    total = len(story.begins)
    steps = [round(1000 * x) for x in sorted(story.begins.values())]
    d, last = f"M0 {base - top}", None
    for i, x in enumerate(steps):
        if i + 1 < total and steps[i + 1] == x:
            continue
        if x != last:
            d += f"H{x}"
        d += f"V{round((base - top) * (total - i - 1) / total, 1):g}"
        last = x
    d += f"H1000V{base - top}z"
    return tag(
        "g",
        _name(say("ranks that report"), base - 16),
        _name(say("a failure, so far"), base - 2),
        _stretched(top, base - top, tag("path", d=d, class_="area")),
        tag("text", f"{total:,}", x="100%", dx=6, y=top + 9, class_="count"),
        class_="spread",
        aria_hidden="true",
    )


def _first(story: Story, bottom: int) -> Html:
    if story.first is None:
        return Html("")
    x, words = story.first
    right = x > 0.5
    label = tag("text", words, x=_at(x), dx=-6 if right else 6, y=16, text_anchor="end" if right else "start")
    return tag("g", _stroke("since", x, x, 14, bottom), label, class_="first", aria_hidden="true")


def _row(lane: Lane, y: float, name: str, story: Story) -> Html:
    many = len(lane.ranks) > 1
    label = rank_words(lane.ranks, _LABEL - 6).partition(" (")[0] if lane.ranks else say("launcher, unmarked")
    below = say("{n} ranks", n=f"{len(lane.ranks):,}") if many else (say("culprit") if lane.culprit else "")
    if many and lane.culprit:
        below += ", " + say("culprits")
    parts = [
        _name(label, y + (-1 if below else 4)),
        _name(below, y + 11, "below") if below else "",
        _bar(lane, y),
        *_marks(lane, y, name, story),
    ]
    kind = "lane culprit" if lane.culprit else "lane"
    return tag("g", *parts, class_=kind, data_ranks=ranges(lane.ranks) or "-")


def _bar(lane: Lane, y: float) -> Html:
    """From the first to the last line of the lane's ranks; after its first failure in another colour."""
    if not lane.ranks:
        return _stroke("outside", 0, 1, y, y)
    if lane.spoke is None:
        if lane.marks:
            return Html("")
        whose = "no line of note marked with these ranks" if len(lane.ranks) > 1 else _NO_LINE
        return tag("text", say(whose), class_="note", x=8, y=y + 4)
    start, end = lane.spoke
    hurt = lane.trouble
    turn = end if hurt is None else min(max(hurt, start), end)
    parts = []
    if turn > start or hurt is None:
        parts.append(_stroke("alive", start, max(turn, start + 0.0001), y, y))
    if hurt is not None:
        parts.append(_stroke("hurt", turn, max(end, turn + 0.0001), y, y))
    return join(parts)


def _marks(lane: Lane, y: float, name: str, story: Story) -> Iterable[Html]:
    drawn: list[tuple[int, Html]] = []
    at = -math.inf
    for mark in _limited(lane.marks):
        at = x = min(max(mark.xs[0], at + _APART / PLOT), 1.0)
        standing = mark.told.standing
        parts = [tag("title", _hint(mark, lane, story))]
        rest = [p for p in dict.fromkeys(round(1000 * other) for other in mark.xs[1:]) if p > 1000 * x + 4]
        if rest:
            ticks = tag("path", class_="more", d="".join(f"M{p} 0v10" for p in rest))
            parts.append(_stretched(y - 5, 10, ticks))
        parts.append(tag("use", href=f"#g-{standing}", x=_at(x), y=y))
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


def _hint(mark: Mark, lane: Lane, story: Story) -> str:
    who = rank_words(lane.ranks, 40) or say("no rank")
    times = say(" ({n} times)", n=f"{mark.count:,}") if mark.count > 1 else ""
    where = say("from {place}", place=place_of(mark.first, story.files))
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
        d = "".join(f"M{r % wide * 10} {r // wide * 10}h8.6v8.6h-8.6z" for r in cells[state])
        title = tag("title", f"{say(meaning)}: {rank_words(cells[state], 200)}")
        paths.append(tag("path", title, d=d, class_=state))
    step, sparse = (_power(14 * wide / room) for room in (PLOT, NARROW))
    labels = [
        _name(r * wide, _at((r + 0.45) / top), "name" if r % sparse == 0 else "name wide") for r in range(0, top, step)
    ]
    grid = tag(
        "svg",
        tag("title", say("Map of ranks"), id=f"{name}-map-title"),
        tag("desc", "; ".join(f"{say(m)}: {len(cells[s]):,}" for s, m in states if cells[s]), id=f"{name}-map-desc"),
        *paths,
        viewBox=f"0 0 {wide * 10 - 1} {top * 10}",
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
            tag("div", tag("svg", *labels, class_="names", aria_hidden="true"), grid, class_="map"),
            tag("ul", *legend, class_="legend"),
        ]
    )


def _power(least: float) -> int:
    """The power of two from `least` on: ranks are counted in such."""
    return int(2 ** max(0, math.ceil(math.log2(least))))


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
