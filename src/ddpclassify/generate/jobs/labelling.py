"""Label the log of a job by what it shows: the evidence, and who failed first as far as the text tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from ddpclassify.generate.jobs.plan import JobPlan


def label_of(job: JobPlan, log: bytes, lost: Sequence[int] = ()) -> dict[str, Any] | None:
    """Label a log by what it shows, or return `None` when it does not show the job's fault.

    Parameters
    ----------
    lost : the ranks of the node that was made to vanish
    """
    fault = job.fault
    lines = log.decode("utf-8", "replace").split("\n")
    evidence: list[int] = []
    if fault.category == "no_failure":
        if not any("finished" in line for line in lines):
            return None
        scope, culprits = "none", list[int]()
    else:
        pattern = re.compile(fault.evidence)
        code = {part.strip() for part in fault.code.split("\n")}
        evidence = [n for n, line in enumerate(lines, 1) if pattern.search(line) and _bare(line) not in code]
        if not evidence:
            return None
        evidence, scope, culprits = _who(job, lines, evidence, lost)
    return {
        "log": f"logs/{job.name}.log",
        "category": fault.category,
        "scope": scope,
        "culprit_ranks": culprits,
        "evidence_lines": evidence,
        "reason": fault.reason,
        "launcher": job.launcher.label,
        "launcher_form": job.launcher.name,
        "backend": "gloo",
        "world_size": job.ranks,
        "provenance": "executed",
        "template": fault.id,
        "workload": job.workload,
        "torch": version("torch").partition("+")[0],
        "damage": "none",
    }


def _bare(line: str) -> str:
    return re.sub(r"^(?:\[[^\]]*\](?:<\w+>)?:? ?)+", "", line).strip()


def _who(job: JobPlan, lines: list[str], evidence: list[int], lost: Sequence[int]) -> tuple[list[int], str, list[int]]:
    """The evidence of the culprits, the scope, and the culprit ranks, as far as the text tells them."""
    fault, launcher = job.fault, job.launcher
    if launcher.header:
        lines = _with_ranks(lines, launcher.header)
    if fault.where == "outside":
        return evidence, "launcher", []
    if fault.where == "node":
        return (evidence, "ranks", sorted(lost)) if lost else (evidence, "unknown", [])
    spawned = [int(m[1]) for line in lines if (m := re.search(r"Process (\d+) terminated with", line))]
    spawned += [int(m[1]) for line in lines if (m := re.search(r"process (\d+) terminated with", line))]
    if fault.where == "all" and len(evidence) >= job.ranks:
        return evidence, "all", []
    if not launcher.shows_all:
        if fault.where == "others":
            return evidence, "unknown", []
        return (evidence, "ranks", sorted(set(spawned))) if spawned else (evidence, "unknown", [])
    if fault.where == "all":
        return evidence, "all", []
    if fault.where == "some":
        struck = {r for r in job.some for n in evidence if _marked(launcher.marks, r, lines[n - 1])} or _own_rows(lines)
        named = struck <= set(job.some) and len(evidence) >= len(struck) > 0
        return (evidence, "ranks", sorted(struck)) if named else (evidence, "unknown", [])
    victims = [job.victim]
    if fault.where == "race":
        victims = sorted({r for r in range(job.ranks) for n in evidence if _marked(launcher.marks, r, lines[n - 1])})
        if not victims:
            return evidence, "unknown", []
        return (evidence, "all", []) if len(victims) == job.ranks else (evidence, "ranks", victims)
    if fault.where == "hidden" or (fault.where == "odd" and job.ranks == 2):
        return evidence, "unknown", []  # of two that differ, neither is the odd one
    if fault.where == "others":
        told = [r for r in range(job.ranks) if any(_marked(launcher.marks, r, lines[n - 1]) for n in evidence)]
        named = any(re.search(rf"[Rr]anks? (?:\d+, )*{job.victim}\b", lines[n - 1]) for n in evidence)
        known = named or len(told) == job.ranks - 1
        return (evidence, "ranks", victims) if known else (evidence, "unknown", [])
    mine = [n for n in evidence if _marked(launcher.marks, job.victim, lines[n - 1])]
    if mine:
        return mine, "ranks", victims
    if _only_row(lines, job.victim) or (
        launcher.nodes == 1 and any(re.search(rf"local_rank: {job.victim} \(pid", lines[n - 1]) for n in evidence)
    ):
        return evidence, "ranks", victims
    if fault.where == "odd" or any(
        re.search(rf"[Rr]ank {job.victim}\b|\[{job.victim}\]: params", lines[n - 1]) for n in evidence
    ):
        return evidence, "ranks", victims
    return evidence, "unknown", []


def _marked(marks: str, rank: int, line: str) -> bool:
    return bool(re.search(rf"\[rank{rank}\]:", line) or (marks and re.search(marks.replace("{rank}", str(rank)), line)))


def _with_ranks(lines: list[str], header: str) -> list[str]:
    """The lines of joined files, each marked with the rank that the header above it names."""
    rank, out = "", []
    for line in lines:
        if line.startswith("==> "):
            rank = f"[rank{m[1]}]: " if (m := re.search(header, line)) else ""
        out.append(rank + line)
    return out


def _only_row(lines: list[str], rank: int) -> bool:
    """Whether torchrun's table lists this rank as the only one that failed by itself."""
    rows = _rows(lines)
    return _own_rows(lines) == {rank} or (
        rank in rows and rows[rank] not in ("1", "-15") and sum(c == rows[rank] for c in rows.values()) == 1
    )


def _own_rows(lines: list[str]) -> set[int]:
    """The ranks that failed by themselves by torchrun's table."""
    return {rank for rank, code in _rows(lines).items() if code != "-15"}


def _rows(lines: list[str]) -> dict[int, str]:
    """The exit code of each rank in torchrun's table."""
    rows: dict[int, str] = {}
    last = None
    for line in lines:
        if m := re.search(r"rank\s+: (\d+) \(local_rank", line):
            last = int(m[1])
        elif (m := re.search(r"exitcode\s+: (-?\d+)", line)) and last is not None:
            rows[last] = m[1]
    return rows
