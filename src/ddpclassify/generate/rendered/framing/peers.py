"""What the other ranks say and how they end once the first has died."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..exceptions import Frame, traceback_text
from ..script import Job, Say, Script
from ..stock.words import Fill, node_ip
from .base import Clock, Death, Launcher
from .nccl import group_prefix, nccl_error, taken_down, watchdog_origin, watchdog_says, work_text

STEP_CALLS = (
    "loss.backward()", "dist.all_reduce(loss)", "dist.barrier()", "out = model(batch)", "scaler.scale(loss).backward()",
    "dist.all_gather(outs, feat)", "dist.broadcast(flag, src=0)", "accelerator.backward(loss)",
)  # fmt: skip
COLLECTIVES = ("all_reduce", "barrier", "all_gather", "broadcast", "all_gather_object", "reduce_scatter")
GOODBYES = (
    "[rank: {local_rank}] Received SIGTERM: 15",
    "Received signal 15, exiting",
    "SIGTERM received on rank {rank}, shutting down",
    "caught SIGTERM, cleaning up",
    "Signal handler called with signal 15",
)
"""What scripts with a handler say when the launcher ends them after another rank's failure."""
OPERATIONS = ("ALLREDUCE", "ALLREDUCE", "BROADCAST", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE", "_REDUCE_SCATTER_BASE")


@dataclass
class Echo:
    """The reaction of a surviving rank: its writes and its end."""

    says: list[Say]
    death: Death


def unfold(
    rng: random.Random, job: Job, script: Script, launcher: Launcher, clock: Clock, fill: Fill
) -> tuple[list[Say], list[Death]]:
    """Play out the failure on every rank.

    Returns
    -------
    tuple
        What the survivors write, and the deaths of all ranks that end (own, echo and victim).
    """
    deaths = [Death(end.rank, end.t, end.code) for end in script.exits]
    if not deaths or script.hang:
        return [], deaths
    first = min(deaths, key=lambda death: death.t)
    dead = {death.rank for death in deaths}
    reaction = Reaction(rng, job, script, fill, first)
    says: list[Say] = []
    kills = _kill_times(rng, job, deaths, launcher)
    goodbye = rng.choice(GOODBYES) if rng.random() < 0.12 and launcher.kills else ""
    survivors = [rank for rank in range(job.world_size) if rank not in dead]
    reacts = [rank for rank in survivors if script.peers and script.in_group and rank not in script.silent]
    echoes = {rank: echo for rank in reacts if (echo := reaction.echo(rank))}
    for rank, echo in echoes.items():
        # The first of a node to go takes its siblings along.
        node = rank // job.per_node
        if launcher.kills and echo.death.t < kills[node]:
            kills[node] = min(kills[node], echo.death.t + rng.uniform(*launcher.kill_lag))
    for rank in survivors:
        kill, echo = kills[rank // job.per_node], echoes.get(rank)
        # What a rank would have said after it was ended is never written.
        says += [say for say in echo.says if say.t < kill] if echo else []
        if echo and echo.death.t < kill:
            deaths.append(echo.death)
        elif kill < math.inf:
            deaths.append(Death(rank, kill + rng.uniform(0.001, 0.4), -15, "victim"))
            if goodbye and rank not in script.silent:
                t, kind = kill + rng.uniform(0.0005, 0.05), rng.choice(("raw", "log"))
                says.append(Say(rank, t, fill(goodbye, rank), kind, level="I"))
    return says, deaths


def _kill_times(rng: random.Random, job: Job, deaths: Sequence[Death], launcher: Launcher) -> list[float]:
    """When each node's launcher ends what is left there."""
    lag = rng.uniform(*launcher.kill_lag)
    if not launcher.kills:
        return [math.inf] * len(job.hosts)
    if launcher.kills_all:
        return [min(death.t for death in deaths) + lag] * len(job.hosts)
    firsts = [[death.t for death in deaths if death.rank // job.per_node == node] for node in range(len(job.hosts))]
    cascade = math.inf if launcher.cascade is None else min(map(min, filter(None, firsts))) + lag + launcher.cascade
    return [min(cascade, min(times) + lag if times else math.inf) for times in firsts]


class Reaction:
    """How this log's survivors react to the loss of a peer; drawn once, then told for each rank."""

    def __init__(self, rng: random.Random, job: Job, script: Script, fill: Fill, first: Death) -> None:
        self.rng, self.job, self.script, self.fill, self.first = rng, job, script, fill, first
        if job.backend == "gloo":
            self.mode = rng.choices(("gloo", "silent"), (75, 25))[0]
        else:
            self.mode = rng.choices(("remote", "watchdog", "async", "silent"), (22, 40, 12, 26))[0]
        self.call = rng.choice(STEP_CALLS)
        self.sequence = rng.randint(3, 90000)
        self.operation = rng.choice(OPERATIONS)
        self.numel = rng.choice((1, 64, 1000, 1048576, 6553600, rng.randint(2, 30_000_000)))
        self.timeout = (
            rng.choice((1800, 1800, 600, 300, 3600)) if job.torch < (2, 2) else rng.choice((600, 600, 600, 1800, 120))
        )
        self.peer = f"[{node_ip(job, first.rank // job.per_node)}]:{rng.randint(1024, 60999)}"

    def echo(self, rank: int) -> Echo | None:
        """The echo of one rank, or None where it never notices."""
        return {"gloo": self.gloo, "remote": self.remote, "watchdog": self.watchdog, "async": self.asynchronous}.get(
            self.mode, lambda rank: None
        )(rank)

    def _frames(self, tail: Sequence[Frame]) -> list[Frame]:
        user = [
            Frame("{user}/train.py", "<module>", "main()"),
            Frame("{user}/train.py", "main", "train_one_epoch(model, loader)"),
            Frame("{user}/train.py", "train_one_epoch", self.call),
        ]
        return [*user, *tail]

    def _tail(self) -> list[Frame]:
        if "backward" in self.call:
            return [
                Frame("{site}/torch/_tensor.py", "backward", "torch.autograd.backward("),
                Frame("{site}/torch/autograd/__init__.py", "backward", "Variable._execution_engine.run_backward("),
            ]
        if "model(" in self.call:
            return [Frame("{site}/torch/nn/modules/module.py", "_call_impl", "return forward_call(*args, **kwargs)"),
                    Frame("{site}/torch/nn/parallel/distributed.py", "forward", "self._sync_buffers()")]  # fmt: skip
        name = next((name for name in COLLECTIVES if name in self.call), "all_reduce")
        tail = [Frame("{site}/torch/distributed/distributed_c10d.py", name, "work.wait()")]
        if self.job.torch >= (2, 0):
            wrapper = "c10d_logger.py" if self.job.torch >= (2, 1) else "distributed_c10d.py"
            tail.insert(0, Frame(f"{{site}}/torch/distributed/{wrapper}", "wrapper", "return func(*args, **kwargs)"))
        return tail

    def _raised(self, rank: int, t: float, error: str) -> Echo:
        text = traceback_text(self._frames(self._tail()), error, self.fill, rank)
        return Echo([Say(rank, t, text, kind="traceback")], Death(rank, t + self.rng.uniform(0.1, 0.9), 1, "echo"))

    def gloo(self, rank: int) -> Echo:
        torch = self.job.torch
        root = "../third_party/gloo" if torch < (2, 6) else "/pytorch/third_party/gloo"
        line = 534 if torch >= (2, 1) else 598 if torch >= (1, 13) else 575
        text = self.rng.choices(
            (
                f"Connection closed by peer {self.peer}",
                f"Read error {self.peer}: Connection reset by peer",
                f"writev {self.peer}: Broken pipe",
            ),
            (8, 2, 1),
        )[0]
        error = f"RuntimeError: [{root}/gloo/transport/tcp/pair.cc:{line}] {text}"
        return self._raised(rank, self.first.t + self.rng.uniform(0.01, 0.6), error)

    def remote(self, rank: int) -> Echo:
        t = self.first.t + self.rng.uniform(0.4, 6)
        return self._raised(
            rank, t, nccl_error(self.rng, self.job, "remote", self.peer, self.job.host(self.first.rank))
        )

    def watchdog(self, rank: int) -> Echo:
        t = self.first.t + self.timeout + self.rng.uniform(0, 1)
        says, end = watchdog_says(
            self.rng, self.job, rank, t, self.sequence, self.operation, self.numel, self.timeout * 1000
        )
        return Echo(says, Death(rank, end, -6, "echo"))

    def asynchronous(self, rank: int) -> Echo:
        job, torch = self.job, self.job.torch
        t = self.first.t + self.rng.uniform(0.5, 30)
        inner = nccl_error(self.rng, job, "remote", self.peer, self.job.host(self.first.rank)).split(": ", 1)[1]
        work = work_text(torch, self.sequence, self.operation, self.numel, self.timeout * 1000)
        prefix = group_prefix(torch, rank)
        text = (f"[Rank {rank}] found async exception when checking for NCCL errors: {inner}" if torch < (2, 5)
                else f"{prefix}Collective {work} raised the following async exception: {inner}")  # fmt: skip
        origin = watchdog_origin(torch)
        says = [Say(rank, t, text, kind="c10", origin=origin)]
        says += taken_down(job, rank, t + 0.01, inner, "checkForNCCLErrorsInternal")
        return Echo(says, Death(rank, t + self.rng.uniform(0.3, 2), -6, "echo"))
