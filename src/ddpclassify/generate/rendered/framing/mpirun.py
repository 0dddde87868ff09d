"""Open MPI: optional tags with the rank, boxes of dashes at the end."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..script import Job, Say, Script
from .base import NOTHING, RANK, SIGNALS, Clock, Death, Launcher, agent, blamed

BOX = "-" * 74


class Mpirun(Launcher):
    """One process a rank; mpirun ends all of them when one fails."""

    kill_lag = (0.02, 0.5)
    kills_all = True
    buffered = 0.4

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.tags = rng.choices(("plain", "output", "timestamp", "prepend", "sagemaker"), (48, 30, 8, 8, 6))[0]
        self.family = rng.randint(1000, 65000)
        self.five = job.torch >= (2, 4) and rng.random() < 0.3

    def tag(self, say: Say) -> tuple[str, frozenset[str]]:
        if say.who < 0 or self.tags == "plain":
            return "", NOTHING
        rank, stream = say.who, say.stream
        forms = {
            "output": f"[1,{rank}]<{stream}>:",
            "timestamp": f"{self.clock.text(say.t, '%a %b %e %H:%M:%S %Y')}[1,{rank}]<{stream}>:",
            "prepend": f"[{rank}] ",
            "sagemaker": f"[1,mpirank:{rank},algo-{rank // self.job.per_node + 1}]<{stream}>:",
        }
        if self.five and self.tags == "output":
            return f"[prterun-{self.job.hosts[0]}-{self.family}@1,{rank}]<{stream}>: ", frozenset({RANK})
        return forms[self.tags], frozenset({RANK})

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        own = sorted((death for death in deaths if death.cause != "victim"), key=lambda death: death.t)
        if not own:
            return []
        first = own[0]
        near = [death for death in own if death.t < first.t + 0.05]
        # Which of several nearly simultaneous deaths mpirun names is chance.
        first = self.rng.choice(near)
        job, t = self.job, first.t + self.rng.uniform(0.1, 0.8)
        proof = script.table_is_evidence and blamed(script, first)
        names = (first.rank,) if blamed(script, first) else ()
        program = "prterun" if self.five else "mpirun"
        if first.code < 0:
            what = SIGNALS.get(-first.code, ("", "Unknown signal"))[1]
            text = (
                f"{BOX}\n{program} noticed that process rank {first.rank} with PID {job.pids[first.rank]} on node "
                f"{job.host(first.rank)} exited on signal {-first.code} ({what}).\n{BOX}"
            )
            return [agent(t, text, names=names, evidence=(1,) if proof else ())]
        says = [
            agent(
                t,
                f"{BOX}\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. Per"
                f" user-direction, the job has been aborted.\n{BOX}",
            )
        ]
        fields = (
            f"[[{self.family},1],{first.rank}]"
            if not self.five
            else f"[prterun-{job.hosts[0]}-{self.family}@1,{first.rank}]"
        )
        text = (
            f"{BOX}\n{program} detected that one or more processes exited with non-zero status, thus causing\nthe job"
            f" to be terminated. The first process to do so was:\n\n  Process name: {fields}\n  Exit code:   "
            f" {first.code}\n{BOX}"
        )
        # The box may name a survivor that merely noticed: it is no mark of the failing rank.
        return [*says, agent(t + 0.05, text, evidence=(5,) if proof else ())]
