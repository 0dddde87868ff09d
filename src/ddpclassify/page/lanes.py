"""Who says what, lane by lane: a lane a rank, or a lane for all ranks with the same story."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ddpclassify.language import say
from ddpclassify.page.axis import Axis
from ddpclassify.report.words import lead, place
from ddpclassify.types import Diagnosis, Event, Failure, Folded, Line

Standing = Literal["cause", "followed", "teardown", "minor"]

UNFOLDED = 16  # up to so many ranks have a lane each
LANES = 28  # more than so many lanes are folded further
_RANKS = 1 << 14
_BINS = 400  # distinct positions kept of one mark


Said = dict[int | None, dict[int, list[tuple[float, Line]]]]  # rank → failure → where its reports stand


@dataclass(frozen=True)
class Told:
    """A failure of the diagnosis with its events: `number` counts from 1 on the page."""

    number: int
    standing: Standing
    row: dict[str, Any]
    failure: Failure


@dataclass(frozen=True)
class Mark:
    """A failure in a lane: `xs` are the positions of its reports there, ascending, and `first` the first of them."""

    told: Told
    xs: tuple[float, ...]
    count: int
    first: Line


@dataclass(frozen=True)
class Lane:
    """Ranks with the same story; without ranks: the launcher and lines that bear no mark."""

    ranks: tuple[int, ...]
    culprit: bool
    spoke: tuple[float, float] | None
    marks: tuple[Mark, ...]

    @property
    def trouble(self) -> float | None:
        """Where the first failure that counts stands."""
        return min((m.xs[0] for m in self.marks if m.told.standing in ("cause", "followed")), default=None)


@dataclass(frozen=True)
class Story:
    """All lanes of a log, and for each rank where its trouble begins."""

    axis: Axis
    lanes: tuple[Lane, ...]
    begins: dict[int, float]  # rank → position of its first failure that counts
    first: tuple[float, str] | None  # position of the diagnosis' first evidence, and what it is
    ranks: tuple[int, ...]
    heard: frozenset[int]  # ranks with a line in the log
    folded: bool
    files: tuple[str, ...]  # their names, where the log has several

    @property
    def ordered(self) -> bool:
        """Whether positions in different lanes can be compared, and there is a failure to compare."""
        return bool(self.begins) and self.axis.mode != "file"


def told(folded: Folded, d: Diagnosis) -> list[Told]:
    """Return the diagnosis' failures with their events, in the log's order."""
    by_signature = {f.signature: f for f in folded.failures}
    rows = [row for row in d.failures if row["signature"] in by_signature]
    best = lead(d)
    out = []
    for number, row in enumerate(rows, 1):
        failure = by_signature[row["signature"]]
        standing = _standing(row, failure)
        if d.category == "no_failure":
            standing = "minor"
        elif best is not None and (row is best or _began_too(row, standing, d, best)):
            standing = "cause"
        out.append(Told(number, standing, row, failure))
    return out


def _standing(row: dict[str, Any], failure: Failure) -> Standing:
    if row["recovered"] or row["kind"] == "error_line":
        return "minor"
    return "teardown" if failure.role_hint == "teardown" else "followed"


def _began_too(row: dict[str, Any], standing: Standing, d: Diagnosis, best: dict[str, Any]) -> bool:
    """Others that may be causes are shown so where they are the culprits', or part of the proof and not after it."""
    if row["role"] != "cause":
        return False
    if row["ranks"] and (d.scope != "all" or d.culprit_ranks):
        return set(row["ranks"]) <= set(d.culprit_ranks)
    # An Xid line of the kernel, say: what stands before the best proof can not have followed it.
    cited = {e["line"] for e in d.evidence if e["file"] is None}  # files of a folder have no order
    return standing == "followed" and row["first_line"] in cited and row["first_line"] < best["first_line"]


def story(folded: Folded, d: Diagnosis, failures: list[Told]) -> Story:
    """Lay out a log's failures in lanes."""
    spans, whole = _spans(folded)
    events = [e for t in failures for e in t.failure.events]
    causes = [t.failure.first for t in failures if t.standing == "cause"]
    points = [e.line for e in events] + [line for span in spans.values() for line in span] + whole
    axis = Axis(folded, causes, points)
    said: Said = defaultdict(lambda: defaultdict(list))
    for t in failures:
        for event in t.failure.events:
            if (key := axis.key(event.line)) is not None:
                said[event.rank][t.number].append((axis.x(key), event.line))
    ranks = _ranks(d, spans, said)
    single = [_lane(failures, axis, (rank,), d, spans, said) for rank in ranks]
    begins = {lane.ranks[0]: lane.trouble for lane in single if lane.trouble is not None}
    lanes = _fold(single)
    # Culprits on top, the first that failed first; the others by rank.
    lanes.sort(key=lambda lane: (not lane.culprit, (lane.trouble or 1.0) if lane.culprit else 0.0, lane.ranks))
    if None in said:
        lanes.append(_lane(failures, axis, (), d, spans, said))
    return Story(
        axis,
        tuple(lanes),
        begins,
        _first(folded, d, axis),
        tuple(ranks),
        frozenset(spans),
        len(lanes) < len(ranks),
        files_of(folded),
    )


def _spans(folded: Folded) -> tuple[dict[int, tuple[Line, Line]], list[Line]]:
    """The first and last line of every rank, and of the whole log."""
    lines = folded.events.log.lines
    first: dict[int, Line] = {}
    last: dict[int, Line] = {}
    for line in lines:
        if line.rank is not None and 0 <= line.rank < _RANKS:
            first.setdefault(line.rank, line)
            last[line.rank] = line
    return {rank: (first[rank], last[rank]) for rank in first}, [lines[0], lines[-1]] if lines else []


def _ranks(d: Diagnosis, spans: Iterable[int], said: Iterable[int | None]) -> list[int]:
    known = {*spans, *d.culprit_ranks, *(r for r in said if r is not None)}
    if d.world_size and d.world_size <= _RANKS:
        known |= set(range(d.world_size))
    return sorted(r for r in known if 0 <= r < _RANKS)


def _lane(
    failures: list[Told],
    axis: Axis,
    ranks: tuple[int, ...],
    d: Diagnosis,
    spans: dict[int, tuple[Line, Line]],
    said: Said,
) -> Lane:
    rank = ranks[0] if ranks else None
    mine = said.get(rank, {})
    marks = [_mark(t, mine[t.number]) for t in failures if t.number in mine]
    spoke = None
    if rank is not None and rank in spans:
        keys = [k for line in spans[rank] if (k := axis.key(line)) is not None]
        spoke = (axis.x(min(keys)), axis.x(max(keys))) if keys else None
    marks.sort(key=lambda m: m.xs[0])
    return Lane(ranks, rank is not None and rank in d.culprit_ranks, spoke, tuple(marks))


def _mark(told: Told, reports: list[tuple[float, Line]]) -> Mark:
    ordered = sorted(reports, key=lambda report: report[0])
    return Mark(told, tuple(x for x, _ in ordered), len(ordered), ordered[0][1])


def _fold(single: list[Lane]) -> list[Lane]:
    """Give ranks of equal stories one lane; what equal means widens until the lanes fit a page."""
    if len(single) <= UNFOLDED:
        absent = [lane for lane in single if not (lane.culprit or lane.spoke or lane.marks)]
        if not absent or (len(absent) <= 3 and any(lane.spoke for lane in single)):
            return list(single)
        return [lane for lane in single if lane not in absent] + [_merged(absent)]
    keys: tuple[Callable[[Lane], Hashable], ...] = (
        lambda lane: (lane.culprit, lane.spoke is None, frozenset(m.told.number for m in lane.marks)),
        lambda lane: (lane.culprit, lane.spoke is None, lane.marks[0].told.number if lane.marks else 0),
        lambda lane: (lane.culprit, lane.spoke is None, lane.trouble is None),
    )
    lanes: list[Lane] = []
    for key in keys:
        groups: dict[Hashable, list[Lane]] = defaultdict(list)
        for lane in single:
            groups[key(lane)].append(lane)
        lanes = [_merged(group) for group in groups.values()]
        if len(lanes) <= LANES:
            break
    return lanes


def _merged(lanes: list[Lane]) -> Lane:
    if len(lanes) == 1:
        return lanes[0]
    by_number: dict[int, list[Mark]] = defaultdict(list)
    for lane in lanes:
        for mark in lane.marks:
            by_number[mark.told.number].append(mark)
    spoken = [lane.spoke for lane in lanes if lane.spoke]
    marks = [
        replace(
            min(same, key=lambda m: m.xs[0]),
            xs=_binned([x for m in same for x in m.xs]),
            count=sum(m.count for m in same),
        )
        for same in by_number.values()
    ]
    return Lane(
        tuple(lane.ranks[0] for lane in lanes),
        lanes[0].culprit,
        (min(s[0] for s in spoken), max(s[1] for s in spoken)) if spoken else None,
        tuple(sorted(marks, key=lambda m: m.xs[0])),
    )


def files_of(folded: Folded) -> tuple[str, ...]:
    """Return the names of a log's files where it has several."""
    files = folded.events.log.files
    return tuple(file.name for file in files) if len(files) > 1 else ()


def place_of(line: Line, files: Sequence[str]) -> str:
    """Return a line's number, with its file where the log has several."""
    return place(files[line.file] if files else None, [line.number])


def _binned(xs: list[float]) -> tuple[float, ...]:
    bins = {round(x * _BINS): x for x in sorted(xs, reverse=True)}
    return tuple(sorted(bins.values()))


def _first(folded: Folded, d: Diagnosis, axis: Axis) -> tuple[float, str] | None:
    if not d.evidence:
        return None
    best = d.evidence[0]
    files = folded.events.log.files
    for event in _all(folded):
        line = event.line
        if line.number == best["line"] and best["file"] in (None, files[line.file].name):
            if (key := axis.key(line)) is None:
                return None
            own = event.rank is not None and event.rank in d.culprit_ranks
            first = say("first failure, rank {rank}", rank=event.rank)
            return axis.x(key), first if own else say("proof, line {line}", line=f"{line.number:,}")
    return None


def _all(folded: Folded) -> Iterable[Event]:
    return (e for f in folded.failures for e in f.events)
