"""Scope and culprit ranks: who failed first, from the lines that state the cause and the launcher's reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ddpclassify.baselines.collectives import Report, judge
from ddpclassify.baselines.facts import Exit, Facts
from ddpclassify.baselines.writers import Line

# Their lines talk about other ranks than the one that writes them.
_COLLECTIVE = ("collective_timeout", "rank_divergence")
_IN_TEXT = re.compile(r"\b[Rr]ank[ :=]{1,2}(\d+)\b")
_AGENT = re.compile(
    r"torch/distributed/(?:run|launch|elastic)|torchrun|launch_agent|deepspeed/launcher|accelerate/commands"
)
_RANGE = re.compile(r"ranks? (\d{1,6})(?:\.\.|-| to )(\d{1,6})")
_OWNER = re.compile(r"\bpid[ =:]+(\d+)|\bprocess (\d+)")
_VICTIMS = ("-15", "15", "SIGTERM", "Terminated")
# With no word about who: programs that stop before a group exists stop on every rank alike.
_EARLY = ("launch_config", "dependency_error", "build_error", "gpu_environment")


@dataclass(frozen=True)
class Blame:
    """Who failed first; `category` and `line` where the reports themselves correct or prove it better."""

    scope: str
    ranks: tuple[int, ...] = ()
    category: str | None = None
    line: int | None = None


def rank_of(line: Line, facts: Facts) -> int | None:
    """Return the global rank that wrote a line, or None.

    A device or a number in brackets is a rank only if nothing better is there.
    """
    marks = line.marks
    for kind in ("global", "mpi"):
        if kind in marks:
            return marks[kind]
    if marks.get("ray") in facts.pids:
        return facts.pids[marks["ray"]]
    if "local" in marks:
        return _global(marks["local"], marks.get("task"), facts)
    if "inner" in marks:
        return marks["inner"]
    if "task" in marks and not facts.tasks_are_nodes:
        return marks["task"]
    if "bracket" in marks and len(facts.brackets) > 1:
        return marks["bracket"]
    if "device" in marks and facts.nnodes == 1:
        return marks["device"]
    return None


def _global(local: int, node: int | None, facts: Facts) -> int | None:
    known = facts.local_to_global.get(local, set())
    if len(known) == 1:
        return next(iter(known))
    if node is not None and (per_node := facts.nproc or max(facts.locals, default=-1) + 1):
        return node * per_node + local
    return local if facts.nnodes == 1 else None


def blame(category: str, scope: str, same: Sequence[Line], alike: Sequence[Line], facts: Facts) -> Blame:
    """Return who failed first.

    Parameters
    ----------
    category : the cause's
    scope : fixed by the deciding rule, or empty
    same : the deciding line and its equals
    alike : these and further lines of the category
    """
    if category == "node_failure" and same:
        return _lost_node(same, facts)
    if scope:
        return Blame(scope)
    size = facts.size
    if category in _COLLECTIVE:
        reports = [Report(line.text, rank_of(line, facts), line.number) for line in alike]
        if verdict := judge(category, reports, size):
            found = _all_or_some(set(verdict.ranks), size) if verdict.ranks else Blame("all")
            return Blame(found.scope, found.ranks, verdict.category, verdict.line)
    if same and _by_agent(same[0]):
        return Blame("launcher")
    if reported := [each for each in facts.exits if same and each.line == same[0].number]:
        ranks = set(_as_global(reported[0], facts).ranks)
    else:
        ranks = {rank for line in same if (rank := rank_of(line, facts)) is not None}
    if not ranks:  # another statement of the same cause may tell
        ranks = set([rank for line in alike if (rank := rank_of(line, facts)) is not None][:1])
    if ranks:
        alone = size is None and ranks == {0} and not facts.shows_others
        return Blame("all") if alone else _all_or_some(ranks, size)
    if size == 1:
        return Blame("all")
    return _without_prefixes(category, same, facts, size)


def _lost_node(same: Sequence[Line], facts: Facts) -> Blame:
    """Return the ranks of the host that a line names, if the log tells them."""
    for line in same:
        if found := _RANGE.search(line.text):
            return Blame("ranks", tuple(range(int(found[1]), min(int(found[2]), int(found[1]) + 4095) + 1)))
        for host, ranks in facts.hosts.items():
            if host and re.search(rf"(?<![\w-]){re.escape(host.split('.')[0])}(?![\w-])", line.text):
                return Blame("ranks", tuple(sorted(ranks)))
    return Blame("launcher")


def _by_agent(line: Line) -> bool:
    return not line.marks and bool(_AGENT.search(line.frames))


def _all_or_some(ranks: set[int], size: int | None) -> Blame:
    if size is not None and len(ranks) >= size:
        return Blame("all")
    return Blame("ranks", tuple(sorted(ranks)))


def _without_prefixes(category: str, same: Sequence[Line], facts: Facts, size: int | None) -> Blame:
    copies = len(same)
    pids = {int(found[1] or found[2]) for line in same if (found := _OWNER.search(line.raw))}
    if owners := {facts.pids[pid] for pid in pids if pid in facts.pids}:
        return _all_or_some(owners, size)
    table = reported(facts)
    if copies > 1 and size is not None and copies >= size:
        return Blame("all")
    if table:
        # One statement and many reported ranks: the others follow the first, unless each printed its own.
        chosen = set(table if copies > 1 or not same else table[:1])
        return _all_or_some(chosen, size)
    if named := [found[1] for line in same if (found := _IN_TEXT.search(line.text))]:
        return _all_or_some({int(rank) for rank in named if len(rank) < 7}, size)
    if copies > 1 or category in _EARLY:
        return Blame("all")
    return Blame("unknown")


def reported(facts: Facts) -> list[int]:
    """Return the global ranks that launchers report as failed by themselves, the first observed first."""
    exits = [each for each in facts.exits if each.code not in _VICTIMS and each.line > facts.restart]
    if root := [each for each in exits if each.kind == "failed"]:
        # The agent names the first observed failure just before its table.
        rows = [each for each in exits if each.kind == "table" and each.code == root[0].code]
        exits = [*(_as_global(each, facts) for each in root), *rows]
    return list(dict.fromkeys(rank for each in exits for rank in each.ranks))


def _as_global(each: Exit, facts: Facts) -> Exit:
    if each.kind != "failed":
        return each
    # The agent's own table follows the line at once.
    later = (row for row in facts.exits if row.kind == "table" and row.line > each.line and row.code == each.code)
    rows = [row for row in later if each.ranks[0] in _locals(row, facts)]
    return Exit(each.kind, rows[0].ranks if rows else each.ranks, each.code, each.line)


def _locals(row: Exit, facts: Facts) -> set[int]:
    return {local for local, ranks in facts.local_to_global.items() if row.ranks[0] in ranks}
