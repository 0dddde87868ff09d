"""Decides what a perfect reader of the finished text could say about who failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..script import Job, Script
from .base import Launcher, Line


def names_rank(line: Line, rank: int, job: Job, mapped: frozenset[int]) -> bool:
    """Whether a line tells that this rank failed: by prefix, launcher's words, its own text or a mapped pid."""
    if rank in line.names:
        return True
    if not line.evidence:
        return False
    said = re.search(rf"\b[Rr]anks?[ :=#\[]*{rank}\b", line.text) is not None
    by_pid = rank in mapped and re.search(rf"\b{job.pids[rank]}\b", line.text) is not None
    return line.rank == rank or said or by_pid


def some_rank_told(lines: Sequence[Line]) -> bool:
    """Whether the evidence belongs to any rank that a reader can tell."""
    return any(
        line.evidence and (line.rank is not None or re.search(r"\b[Rr]anks?\W{0,3}\d", line.text)) for line in lines
    )


def who_failed(script: Script, job: Job, launcher: Launcher, lines: Sequence[Line]) -> tuple[str, tuple[int, ...]]:
    """Scope and culprits that the text of a log supports.

    Parameters
    ----------
    script
        The failure as it happened.
    lines
        The finished log.

    Returns
    -------
    tuple
        The script's own scope and culprits where the text tells them; else ``unknown`` without culprits.
    """
    if script.scope not in ("ranks", "all"):
        return script.scope, ()
    if job.world_size == 1:
        return "all", ()
    raised = any(say.kind == "traceback" and say.evidence for say in script.says)
    if launcher.shows_one and raised and not script.hang and (script.scope == "all" or len(script.culprit_ranks) > 1):
        shown = sorted({rank for line in lines for rank in line.names})
        return ("ranks", tuple(shown)) if shown else ("unknown", ())
    if script.scope == "all":
        return "all", ()
    mapped = frozenset(rank for line in lines for rank in line.maps)
    told = all(any(names_rank(line, rank, job, mapped) for line in lines) for rank in script.culprit_ranks)
    if told or script.told or (not script.no_culprit_mark and some_rank_told(lines)):
        return "ranks", script.culprit_ranks
    return "unknown", ()
