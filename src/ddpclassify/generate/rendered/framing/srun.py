"""Slurm's srun: one task a GPU, or one torchrun a node; with or without task labels."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..script import SYSTEM, Job, Say, Script
from .base import NODE, NOTHING, RANK, SIGNALS, Clock, Death, Launcher, blamed
from .elastic import Elastic


def task_ranges(tasks: Sequence[int]) -> str:
    """Task numbers as Slurm abbreviates them: ``0-3,5``."""
    parts: list[list[int]] = []
    for task in sorted(tasks):
        if parts and parts[-1][-1] == task - 1:
            parts[-1].append(task)
        else:
            parts.append([task])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def exit_text(code: int) -> str:
    """How srun words the end of a task."""
    if code >= 0:
        return f"Exited with exit code {code}"
    core = " (core dumped)" if -code in (4, 6, 7, 8, 11) else ""
    return SIGNALS.get(-code, ("", "Killed"))[1] + core


class Srun(Launcher):
    """One task a rank."""

    kill_lag = (0.3, 2.0)
    kills_all = True
    buffered = 0.4

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.labelled = rng.random() < 0.45
        self.aborts = rng.random() < 0.75  # --kill-on-bad-exit
        self.kills = self.aborts
        self.job_id = rng.randint(1000, 9_900_000)
        self.queued = rng.random() < 0.3

    def tag(self, say: Say) -> tuple[str, frozenset[str]]:
        if say.who < 0 or not self.labelled:
            return "", NOTHING
        return f"{say.who:>{len(str(self.job.world_size - 1))}}: ", frozenset({RANK})

    def opening(self) -> list[Say]:
        if not self.queued:
            return []
        lines = (
            f"srun: job {self.job_id} queued and waiting for resources",
            f"srun: job {self.job_id} has been allocated resources",
        )
        return [Say(SYSTEM, 0.1 * k, line) for k, line in enumerate(lines)]

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        if not deaths:
            return []
        first = min(deaths, key=lambda death: death.t)
        says = self.abort(first)
        groups: dict[tuple[int, int, str], list[Death]] = {}
        for death in deaths:
            # Victims end by SIGTERM or, half a minute later, by SIGKILL.
            groups.setdefault((death.rank // self.job.per_node, death.code, death.cause), []).append(death)
        for (node, code, _), members in sorted(groups.items(), key=lambda item: (min(d.t for d in item[1]), item[0])):
            t = max(min(death.t for death in members) + 0.2, first.t + 0.1)
            ranks = [death.rank for death in members]
            word = "task" if len(ranks) == 1 else "tasks"
            own = blamed(script, members[0])
            proof = script.table_is_evidence and own
            text = f"srun: error: {self.job.hosts[node]}: {word} {task_ranges(ranks)}: {exit_text(code)}"
            says.append(Say(SYSTEM, t, text, names=tuple(ranks) if own else (), evidence=(0,) if proof else ()))
        return says

    def abort(self, first: Death) -> list[Say]:
        """Lines of a step that is being cancelled because a task failed."""
        if not self.aborts:
            return []
        job, t = self.job, first.t + 0.25
        stamp = self.clock.text(t, "%Y-%m-%dT%H:%M:%S")
        says = [Say(SYSTEM, t, "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.")]
        for node, host in enumerate(job.hosts[:8]):
            says.append(
                Say(
                    SYSTEM,
                    t + 0.02,
                    f"slurmstepd: error: *** STEP {self.job_id}.0 ON {host} CANCELLED AT {stamp} ***",
                    node=node,
                )
            )
        return says


class SrunTorchrun(Elastic):
    """One torchrun a node: Slurm's task number is the node's."""

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.gather = "merge"
        self.slurm = Srun(rng, job, clock)
        self.tags = rng.choices(("plain", "tee"), (3, 1))[0]
        self.cascade = 4.0 if self.slurm.aborts else None

    def tag(self, say: Say) -> tuple[str, frozenset[str]]:
        if say.who == SYSTEM:
            return "", NOTHING
        inner, knows = super().tag(say)
        if not self.slurm.labelled:
            return inner, knows
        width = len(str(max(len(self.job.hosts) - 1, 1)))
        return f"{self.node_of(say):>{width}}: {inner}", knows | {NODE}

    def opening(self) -> list[Say]:
        return [*self.slurm.opening(), *super().opening()]

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        says = super().ending(script, deaths)
        ends = {say.node: say.t for say in says}
        if not ends:
            return says
        first = min(ends, key=lambda node: ends[node])
        rest = [node for node in range(len(self.job.hosts)) if node not in ends]
        says.append(
            Say(
                SYSTEM,
                ends[first] + 0.4,
                f"srun: error: {self.job.hosts[first]}: task {first}: Exited with exit code 1",
                node=first,
            )
        )
        if self.slurm.aborts:
            says += self.slurm.abort(Death(0, ends[first] + 0.3, 1))
            for node in rest[:8]:
                says += self.signalled(node, ends[first] + 0.9)
                says.append(
                    Say(
                        SYSTEM,
                        ends[first] + 3.4,
                        f"srun: error: {self.job.hosts[node]}: task {node}: Exited with exit code 1",
                        node=node,
                    )
                )
        return says


def make_srun(rng: random.Random, job: Job, clock: Clock) -> Launcher:
    """Either way of running under srun."""
    return SrunTorchrun(rng, job, clock) if job.torch >= (1, 10) and rng.random() < 0.4 else Srun(rng, job, clock)
