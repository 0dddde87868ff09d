"""Two readings of who failed first that people use every day: the launcher's own word, and the first rank that reports.

Neither names a category.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpclassify.baselines import Answer
from ddpclassify.baselines.blame import rank_of, reported
from ddpclassify.baselines.facts import Facts
from ddpclassify.baselines.guide import first_errors
from ddpclassify.baselines.writers import Line, Writers

__all__ = ["first_reporting", "launcher_table"]


def _read(lines: list[str], facts: Facts) -> Iterator[Line]:
    writers = Writers()
    for number, raw in enumerate(lines, 1):
        for line in writers.read(number, raw):
            facts.read(line)
            yield line


def launcher_table(lines: list[str]) -> Answer:
    """Blame the rank that the launcher's report calls the root cause, or names first.

    >>> launcher_table(["mpirun noticed that process rank 3 with PID 7 on node n1 exited on signal 9 (Killed)."])
    Answer(category='', scope='ranks', culprit_ranks=(3,), evidence_lines=(1,), confidence=0.0)
    """
    facts = Facts()
    for _ in _read(lines, facts):
        pass
    if named := reported(facts)[:1]:
        lines_of = [each.line for each in facts.exits if named[0] in each.ranks]
        return Answer("", "ranks", tuple(named), tuple(lines_of[:1]))
    return Answer("", "unknown" if facts.failed else "none")


def first_reporting(lines: list[str]) -> Answer:
    """Blame the rank whose error stands first in the log.

    >>> first_reporting(["[rank1]: ValueError: bad", "[rank0]: RuntimeError: Connection closed by peer"])
    Answer(category='', scope='ranks', culprit_ranks=(1,), evidence_lines=(1,), confidence=0.0)
    """
    errors = {number for number, _ in first_errors(lines)}
    facts, first = Facts(), list[Line]()
    for line in _read(lines, facts):
        if not first and line.number in errors:
            first.append(line)
    if not first:
        return Answer("", "none")
    rank = rank_of(first[0], facts)
    scope = "unknown" if rank is None else "ranks"
    return Answer("", scope, () if rank is None else (rank,), (first[0].number,))
