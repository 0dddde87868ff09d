"""A shell that starts the processes itself: a loop with `&` and `wait`, or one plain process."""

from __future__ import annotations

from collections.abc import Sequence

from ..script import Say, Script
from .base import SIGNALS, Death, Launcher, agent, blamed


class Shell(Launcher):
    """Nobody ends the survivors; the shell only words signals."""

    kills = False
    buffered = 0.5

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        job, says = self.job, []
        for death in sorted(deaths, key=lambda death: death.t):
            if death.code >= 0:
                continue
            what = SIGNALS.get(-death.code, ("", "Killed"))[1]
            core = " (core dumped)" if -death.code in (4, 6, 7, 8, 11) else ""
            pid = job.pids[death.rank]
            if job.world_size == 1:
                text = f"{what}{core}"
            else:
                command = f"RANK={death.rank} LOCAL_RANK={death.rank} WORLD_SIZE={job.world_size} python {job.script}"
                text = f"run.sh: line {12 + death.rank}: {pid} {what}{core:<20} {command}"
            own = blamed(script, death)
            proof = script.table_is_evidence and own
            says.append(agent(death.t + 0.05, text, names=(death.rank,) if own else (), evidence=(0,) if proof else ()))
        return says
