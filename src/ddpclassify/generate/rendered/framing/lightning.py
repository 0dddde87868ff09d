"""PyTorch Lightning starting its own processes: every rank announces itself, the main process kills zombies."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..script import Job, Say, Script
from .base import Clock, Death, Launcher, agent, blamed


class Lightning(Launcher):
    """Rank 0 is the launching process; it ends everything once a child is gone."""

    kill_lag = (1.0, 6.0)
    buffered = 0.3

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.zombies = job.torch >= (2, 0)
        self.kills = self.zombies or rng.random() < 0.5

    def opening(self) -> list[Say]:
        job, rng = self.job, self.rng
        says = [
            agent(3.0, "GPU available: True (cuda), used: True"),
            agent(3.001, "TPU available: False, using: 0 TPU cores"),
            agent(3.002, "HPU available: False, using: 0 HPUs"),
        ]
        if job.torch < (2, 1):
            says.insert(2, agent(3.0015, "IPU available: False, using: 0 IPUs"))
        world = job.world_size
        if world == 1:
            return says
        for rank in range(world):
            t = 3.2 if rank == 0 else rng.uniform(6, 9)
            text = f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{world}"
            says.append(Say(rank, t, f"[rank: {rank}] Seed set to 42") if rng.random() < 0.2 else Say(rank, t, text))
        box = "-" * 100
        text = (
            f"{box}\ndistributed_backend={job.backend}\nAll distributed processes registered. Starting with {world}"
            f" processes\n{box}\n"
        )
        return [*says, Say(0, 9.5, text)]

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        job = self.job
        children = [
            death for death in sorted(deaths, key=lambda death: death.t) if death.cause != "victim" and death.rank > 0
        ]
        main = [death for death in deaths if death.rank == 0 and death.cause != "victim"]
        if not self.zombies or not children or (main and main[0].t <= children[0].t):
            if main and main[0].code < 0:
                words = {-9: "Killed", -11: "Segmentation fault (core dumped)", -6: "Aborted (core dumped)"}
                proof = script.table_is_evidence and blamed(script, main[0])
                text = words.get(main[0].code, "Terminated")
                return [agent(main[0].t + 0.1, text, evidence=(0,) if proof else (), names=(0,) if proof else ())]
            return []
        first = children[0]
        text = (
            f"[rank: {first.rank}] Child process with PID {job.pids[first.rank]} terminated with code {first.code}. "
            "Forcefully terminating all other processes to avoid zombies 🧟"
        )
        own = blamed(script, first)
        proof = script.table_is_evidence and own
        t = max(first.t + 0.3, min((death.t for death in deaths if death.cause == "victim"), default=0.0))
        says = [agent(t, text, names=(first.rank,) if own else (), evidence=(0,) if proof else ())]
        return [*says, agent(t + 0.1, "Killed")] if self.rng.random() < 0.6 else says
