"""torch.multiprocessing.spawn: the parent prints the first failing child's traceback inside its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from ..exceptions import Frame, traceback_text
from ..script import Job, Say, Script
from ..stock.words import Fill
from .base import SIGNALS, Clock, Death, Launcher, Writer, agent, blamed, quote


class Spawn(Launcher):
    """Children say nothing about their exceptions; the parent does."""

    kill_lag = (0.02, 0.3)
    buffered = 0.35

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.plain = rng.random() < 0.2
        self.method = rng.choice(("Spawn", "Spawn", ""))
        self.kills = self.shows_one = not self.plain

    def rewrite(self, says: list[Say], script: Script, deaths: Sequence[Death], writer: Writer) -> list[Say]:
        ends = sorted((death for death in deaths if death.cause != "victim"), key=lambda death: death.t)
        if script.hang or not ends:
            return says
        first = ends[0]
        raised = [say for say in says if say.kind == "traceback" and say.who >= 0]
        kept = [say for say in says if say not in raised]
        if self.plain:
            culprits = {death.rank for death in deaths if blamed(script, death)}
            return kept + [self._announced(say, (say.who,) if say.who in culprits else ()) for say in raised]
        own = [say for say in raised if say.who == first.rank]
        t = first.t + self.rng.uniform(0.05, 0.5)
        victims = [death for death in deaths if death.cause == "victim"]
        if self.job.torch >= (2, 3) and victims:
            kept += [self._warning(death, t) for death in victims]
        kept.append(self._parent(first, own, script, t + 0.1))
        return kept

    def _announced(self, say: Say, names: tuple[int, ...]) -> Say:
        """A plain multiprocessing.Process prints its traceback itself, below its name."""
        process = f"{self.job.site.split('/lib/python')[0]}/lib/python3.{self.job.python[1]}/multiprocessing/process.py"
        bootstrap = (
            f'  File "{process}", line 314, in _bootstrap\n    self.run()\n'
            f'  File "{process}", line 108, in run\n    self._target(*self._args, **self._kwargs)'
        )
        head = f"Process {self.method}Process-{say.who + 1}:"
        return quote(say.who, say.t, head, [with_frame(say, bootstrap)], names=names)

    def _warning(self, death: Death, t: float) -> Say:
        moment, pid = self.clock.at(t), self.job.pids[0] - 60
        text = f"Terminating process {self.job.pids[death.rank]} via signal SIGTERM"
        head = (
            f"W{moment:%m%d %H:%M:%S}.{moment.microsecond:06d} {pid}"
            f" torch/multiprocessing/spawn.py:{160 + self.job.torch[1]}] "
        )
        return agent(t, head + text)

    def _parent(self, first: Death, own: list[Say], script: Script, t: float) -> Say:
        job = self.job
        method = "start_processes" if job.torch >= (2, 0) or job.pids[0] % 2 else "spawn"
        frames = [
            Frame("{user}/train.py", "<module>", "main()"),
            Frame("{user}/train.py", "main", "mp.spawn(main_worker, nprocs=args.ngpus, args=(args,))"),
            Frame(
                "{site}/torch/multiprocessing/spawn.py",
                "spawn",
                "return start_processes(fn, args, nprocs, join, daemon, start_method='spawn')",
            ),
            Frame("{site}/torch/multiprocessing/spawn.py", method, "while not context.join():"),
            Frame(
                "{site}/torch/multiprocessing/spawn.py",
                "join",
                (
                    "raise ProcessRaisedException(msg, error_index, failed_process.pid)"
                    if own
                    else "raise ProcessExitedException("
                ),
            ),
        ]
        fill = Fill(self.rng, job)
        names = (first.rank,) if blamed(script, first) else ()
        if own:
            head = traceback_text(frames, "torch.multiprocessing.spawn.ProcessRaisedException: ", fill)
            head += f"\n\n-- Process {first.rank} terminated with the following error:"
            wrap = (
                f'  File "{job.site}/torch/multiprocessing/spawn.py", line {fill("{int:60-80}")}, in _wrap\n    fn(i,'
                " *args)"
            )
            return quote(-1, t, head, [with_frame(own[0], wrap), *own[1:]], "", names=names)
        name = SIGNALS.get(-first.code, ("SIGKILL", ""))[0]
        how = f"signal {name}" if first.code < 0 else f"exit code {first.code}"
        text = traceback_text(
            frames,
            f"torch.multiprocessing.spawn.ProcessExitedException: process {first.rank} terminated with {how}",
            fill,
        )
        proof = script.table_is_evidence and blamed(script, first)
        return agent(t, text, names=names, evidence=(text.count("\n"),) if proof else ())


def with_frame(say: Say, frame: str) -> Say:
    """The traceback with a frame more at its outer end; evidence moves along."""
    lines = say.text.split("\n")
    at = max((k for k, line in enumerate(lines) if line.startswith("Traceback (most")), default=-1)
    if at < 0:
        return say
    added = frame.split("\n")
    moved = tuple(offset + len(added) if offset > at else offset for offset in say.evidence)
    return replace(say, text="\n".join([*lines[: at + 1], *added, *lines[at + 1 :]]), evidence=moved)
