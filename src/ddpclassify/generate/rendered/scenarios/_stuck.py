"""A collective in which ranks wait: what it is, and the waiting ranks' watchdogs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ..script import Exit, Job, Say, Script
from . import _gloo, _nccl
from ._nccl import Work

Story = Callable[[random.Random, Job], Script]

# Usual sizes: gradient buckets, barriers, FSDP and ZeRO gathers, expert exchange.
SHAPES: dict[str, Sequence[tuple[str, int, int]]] = {
    "grad": [("ALLREDUCE", n, 0) for n in (25_557_032, 13_107_200, 6_710_886, 1_049_600, 197_140_480, 2_359_296)],
    "barrier": [("ALLREDUCE", 1, 0)],
    "gather": [("_ALLGATHER_BASE", n, 8 * n) for n in (15_730_688, 55_053_312, 2_106_368)],
    "shard": [("_REDUCE_SCATTER_BASE", 8 * n, n) for n in (15_730_688, 68_124_672)],
    "eval": [("ALLGATHER", n, 8 * n) for n in (32, 128, 2048, 1)],
    "broadcast": [("BROADCAST", n, 0) for n in (1, 66_125_824, 288)],
    "experts": [("ALLTOALL_BASE", n, 0) for n in (7_340_032, 407_003_136)],
    "pipe": [("RECV", n, 0) for n in (8_388_608, 16_777_216)],
}


def draw_work(rng: random.Random, job: Job, shape: str) -> Work:
    op, numel, out = rng.choice(SHAPES[shape])
    ahead = rng.choice([0, 1, 2, 6]) if shape in ("grad", "gather", "shard") else 0
    seq = rng.randint(2, 9) if rng.random() < 0.15 else rng.randint(20, 90_000)
    return Work(seq, op, numel, out, _nccl.draw_timeout(rng, job), ahead)


def wait_out(
    rng: random.Random,
    job: Job,
    waiting: Sequence[int],
    work: Work,
    t: float,
    *,
    dump: bool = False,
    trace: bool = False,
    group_rank: dict[int, int] | None = None,
    behind: dict[int, Work] | None = None,
) -> tuple[list[Say], list[Exit]]:
    """Every waiting rank's watchdog within about a second, in any order."""
    says: list[Say] = []
    ends: list[Exit] = []
    first = rng.choice(list(waiting))
    lines = _gloo.trace_lines(job, "dist.all_reduce(total)") if trace else None
    for rank in waiting:
        own = (behind or {}).get(rank, work)
        at = t + (0 if rank == first else rng.uniform(0.001, 0.9))
        said, end = _nccl.timeout(
            rng, job, rank, own, at, group_rank=(group_rank or {}).get(rank), trace=lines, dump=first if dump else None
        )
        says += said
        ends.append(end)
    return says, ends
