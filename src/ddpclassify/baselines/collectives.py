"""Who is missing, behind or elsewhere when ranks wait for each other: read off the text of communication errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddpclassify.baselines.facts import ranges

_WAIT = re.compile(
    r"Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)"
    r"(?:, (?:NumelIn=(?P<numel>\d+)|TensorShape=\[(?P<shape>[^\]]*)\]))?"
)
_BEHIND = re.compile(r"[Ll]ast enqueued (?:NCCL )?work: (-?\d+), last completed (?:NCCL )?work: (-?\d+)")
# Texts that name the culprits themselves.
_NAMED = (
    re.compile(r"Ranks? (?P<ranks>\d+(?:, \d+)*) failed to pass monitoredBarrier"),
    re.compile(r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging"),
    re.compile(r"\[(?P<ranks>[\d, ]+)\] (?:joined but didn\x27t finish|finished collective #\d+, but didn\x27t join)"),
    re.compile(r"Rank (?P<ranks>\d+) exhausted all inputs"),
    re.compile(r"rank (?P<ranks>\d+) has at least \d+ fewer inputs"),
)
_PRINT = re.compile(
    r"Rank (\d+) is running collective: CollectiveFingerPrint\((?:SequenceNumber=\d+,? ?)?(.{0,160}?)\)(?:,|\.|$)"
)
_PARAMS = re.compile(r"Rank (\d+) has (\d+) params, while rank (\d+) has inconsistent (\d+) params")
_SIZES = re.compile(r"^\S* ?\[(\d+)\]: params\[|params?\[\d+\] in this process")


@dataclass(frozen=True)
class Report:
    """A line about a collective and the global rank that wrote it, if known."""

    text: str
    rank: int | None
    number: int


@dataclass(frozen=True)
class Verdict:
    """`ranks` empty: every rank alike. `category` is None where the text leaves it."""

    ranks: tuple[int, ...]
    category: str | None = None
    line: int | None = None


def judge(category: str, reports: Sequence[Report], size: int | None) -> Verdict | None:
    """Return who caused the reports, or None where they don't tell."""
    for read in (_named, _fingerprints, _parameters, _first_process):
        if verdict := read(reports):
            return verdict
    return _waiting(reports, size) if category == "collective_timeout" else None


def _named(reports: Sequence[Report]) -> Verdict | None:
    for report in reports:
        for pattern in _NAMED:
            if found := pattern.search(report.text):
                return Verdict(ranges(found["ranks"]), line=report.number)
    return None


def minority(views: Mapping[int, object]) -> tuple[int, ...]:
    """Return the ranks that differ from the commonest view; on a tie, those that differ from the lowest rank's.

    >>> minority({0: "a", 1: "b", 2: "a"})
    (1,)
    """
    if not views:
        return ()
    counts = Counter(views.values())
    top = max(counts.values())
    usual = next(views[rank] for rank in sorted(views) if counts[views[rank]] == top)
    return tuple(rank for rank in sorted(views) if views[rank] != usual)


def _fingerprints(reports: Sequence[Report]) -> Verdict | None:
    views = {int(rank): text for report in reports for rank, text in _PRINT.findall(report.text)}
    odd = minority(views)
    return Verdict(odd, "rank_divergence") if odd else None


def _parameters(reports: Sequence[Report]) -> Verdict | None:
    views: dict[int, str] = {}
    for report in reports:
        if found := _PARAMS.search(report.text):
            views[int(found[1])], views[int(found[3])] = found[2], found[4]
    odd = minority(views)
    return Verdict(odd, "rank_divergence") if odd else None


def _first_process(reports: Sequence[Report]) -> Verdict | None:
    """Each reporter compares itself with rank 0: when all others report, rank 0 is the odd one."""
    reporters = set()
    for report in reports:
        if found := _SIZES.search(report.text):
            rank = int(found[1]) if found[1] else report.rank
            if rank is not None:
                reporters.add(rank)
    if len(reporters) > 1 and reporters == set(range(1, max(reporters) + 1)):
        return Verdict((0,), "rank_divergence")
    return Verdict(tuple(sorted(reporters)), "rank_divergence") if reporters else None


def _waiting(reports: Sequence[Report], size: int | None) -> Verdict | None:
    waits: dict[int, tuple[int, str]] = {}
    idle: dict[int, int] = {}
    seen: set[int] = set()
    for report in reports:
        if report.rank is None:
            continue
        if found := _WAIT.search(report.text):
            where = f"{found['op']} {found['numel'] or found['shape'] or ''}"
            waits.setdefault(report.rank, (int(found["seq"] or 0), where))
        elif (found := _BEHIND.search(report.text)) and found[1] == found[2]:
            idle.setdefault(report.rank, int(found[1]))
        else:
            seen.add(report.rank)
    if odd := minority({rank: where for rank, (_, where) in waits.items()}):
        return Verdict(odd, "rank_divergence")
    if waits and (low := min(seq for seq, _ in waits.values())) < max(seq for seq, _ in waits.values()):
        return Verdict(tuple(sorted(rank for rank, (seq, _) in waits.items() if seq == low)), "collective_timeout")
    present = set(waits) or seen
    if not present:
        return None
    if silent := sorted(rank for rank in idle if rank not in present):
        return Verdict(tuple(silent), "collective_timeout")
    missing = sorted(set(range(size or max(present) + 1)) - present)
    # A whole node's worth of missing ranks is another file's business: this log can't name them.
    if missing and (len(missing) == 1 or len(missing) < len(present)):
        return Verdict(tuple(missing), "collective_timeout")
    return Verdict((), "collective_timeout")
