"""Ranks wait in a collective and nothing earlier says why: a rank is silent, late, or all wait alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from ..script import Exit, Job, Say, Script
from . import _nccl
from ._common import (
    NCCL,
    SEVERAL,
    Shelf,
    a_rank,
    draw_time,
    node_ranks,
    others,
    ranks,
    script,
    some_ranks,
    world_line,
)
from ._stuck import Story, draw_work, wait_out

SHELF = Shelf("collective_timeout")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs


def silence(
    shape: str, who: str, reason: str, hints: Sequence[str] = (), dump: bool = False, trace: bool = False
) -> Story:
    """The culprits never join; the others' watchdogs fire one timeout later."""

    def story(rng: random.Random, job: Job) -> Script:
        if who == "node":
            culprits = node_ranks(job, rng.randrange(len(job.hosts)))
        else:
            culprits = {"one": [a_rank(rng, job)], "rank0": [0], "some": some_ranks(rng, job)}[who]
        work, start = draw_work(rng, job, shape), draw_time(rng)
        waiting = others(job, culprits)
        says, ends = wait_out(rng, job, waiting, work, start + work.timeout / 1000, dump=dump, trace=trace)
        says.append(world_line(rng, job))
        says += [
            Say(
                culprits[0],
                start - 0.5 + 0.1 * i,
                hint.format(n=rng.randint(200, 90_000), e=rng.randint(1, 40)),
                "log",
                level="I",
                stream="stdout",
            )
            for i, hint in enumerate(hints)
        ]
        return script(
            "collective_timeout",
            reason,
            job,
            culprits,
            says,
            exits=ends,
            fails_at=start,
            silent=tuple(culprits),
            peers=False,
        )

    return story


def lagging(shape: str, dump: bool) -> Story:
    """The culprit's watchdog fires too, with a smaller sequence number."""

    def story(rng: random.Random, job: Job) -> Script:
        culprits = some_ranks(rng, job, 2)
        work, start = draw_work(rng, job, shape), draw_time(rng)
        late = replace(work, seq=max(1, work.seq - rng.choice([1, 1, 2, 3, 40])), ahead=0)
        says, ends = wait_out(
            rng, job, ranks(job), work, start + work.timeout / 1000, dump=dump, behind=dict.fromkeys(culprits, late)
        )
        return script(
            "collective_timeout", "missing_rank", job, culprits, says, exits=ends, fails_at=start, peers=False
        )

    return story


def alike(shape: str, dump: bool = False, larger: bool = False) -> Story:
    """All ranks of the log wait in the same collective (rule 17)."""

    def story(rng: random.Random, job: Job) -> Script:
        work, start = draw_work(rng, job, shape), draw_time(rng)
        says, ends = wait_out(rng, job, ranks(job), work, start + work.timeout / 1000, dump=dump)
        if larger:  # the file of node 0 alone
            nodes = rng.choice([2, 4, 8, 16])
            total = nodes * job.world_size
            says += [
                Say(rank, 12 + 0.1 * rank, f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{total}")
                for rank in ranks(job)
            ]
        return script("collective_timeout", "all_waiting", job, "all", says, exits=ends, fails_at=start, peers=False)

    return story


def groups(job: Job, size: int, strided: bool) -> list[list[int]]:
    count = job.world_size // size
    if strided:
        return [list(range(i, job.world_size, count)) for i in range(count)]
    return [list(range(i * size, (i + 1) * size)) for i in range(count)]


def subgroup(shape: str, name: str, strided: bool, lag: bool = False) -> Story:
    """Only the culprit's group times out, and its watchdogs count ranks inside the group."""

    def story(rng: random.Random, job: Job) -> Script:
        size = rng.choice([n for n in (2, 4, 8) if n < job.world_size])
        team = rng.choice(groups(job, size, strided))
        culprit = rng.choice(team)
        number = rng.randint(1, 4)
        work = replace(draw_work(rng, job, shape), group=number, guid=f"{rng.randint(number, 40)}({name})")
        start = draw_time(rng)
        late = {culprit: replace(work, seq=work.seq - 1, ahead=0)} if lag else {}
        waiting = team if lag else [rank for rank in team if rank != culprit]
        says, ends = wait_out(
            rng,
            job,
            waiting,
            work,
            start + work.timeout / 1000,
            behind=late,
            group_rank={rank: i for i, rank in enumerate(team)},
        )
        layout = (
            str(groups(job, size, strided)) if job.world_size <= 16 else f"{job.world_size // size} groups of {size}"
        )
        stride = job.world_size // size if strided else 1
        says += [
            world_line(rng, job),
            Say(0, 41, f"device mesh: {name} groups {layout} (size {size}, stride {stride})", "log", level="I"),
        ]
        return script(
            "collective_timeout",
            "missing_rank",
            job,
            [culprit],
            says,
            exits=ends,
            fails_at=start,
            silent=() if lag else (culprit,),
            peers=False,
        )

    return story


def pipeline(rng: random.Random, job: Job) -> Script:
    """A stage hangs: its successor times out in RECV, its predecessor in SEND."""
    culprit = rng.randrange(1, job.world_size - 1)
    work = replace(draw_work(rng, job, "pipe"), group=2, guid=f"{rng.randint(3, 30)}(mesh_pp)")
    start = draw_time(rng)
    send = replace(work, op="SEND")
    says, ends = wait_out(
        rng, job, [culprit - 1, culprit + 1], work, start + work.timeout / 1000, behind={culprit - 1: send}
    )
    says += [
        world_line(rng, job),
        Say(0, 40, f"pipeline: {job.world_size} stages, stage i on rank i", "log", level="I"),
    ]
    return script(
        "collective_timeout",
        "missing_rank",
        job,
        [culprit],
        says,
        exits=ends,
        fails_at=start,
        silent=(culprit,),
        peers=False,
    )


def heartbeat(everybody: bool) -> Story:
    """The monitor finds a watchdog stuck: a driver call hangs there, while the others time out waiting."""

    def story(rng: random.Random, job: Job) -> Script:
        culprits = list(ranks(job)) if everybody else [a_rank(rng, job)]
        work, start = draw_work(rng, job, "grad"), draw_time(rng)
        says: list[Say] = []
        ends: list[Exit] = []
        for rank in culprits:
            said, end = _nccl.monitor_stuck(rng, job, rank, start + rng.uniform(480, 490))
            says += said
            ends.append(end)
        if not everybody:
            work = replace(work, timeout=max(work.timeout, 600_000))
            said, more = wait_out(rng, job, others(job, culprits), work, start + work.timeout / 1000, dump=True)
            # The stuck monitor explains the silence: the waiting ranks only echo it.
            says += [replace(say, evidence=()) for say in said]
            ends += more
        return script("collective_timeout", "heartbeat", job, culprits, says, exits=ends, fails_at=start, peers=False)

    return story


def desync(kind: str) -> Story:
    """TORCH_NCCL_DESYNC_DEBUG: c10d itself says who did not come."""

    def story(rng: random.Random, job: Job) -> Script:
        culprits = some_ranks(rng, job)
        waiting = others(job, culprits)
        work, start = draw_work(rng, job, "grad"), draw_time(rng)
        at = start + work.timeout / 1000
        says, ends = wait_out(rng, job, waiting, work, at)
        names, rest = ", ".join(map(str, culprits)), ", ".join(map(str, waiting))
        for rank in waiting:
            lines = [f"Rank {rank}", f"\t - [{rank}] Timeout at collective: {work.op}, #{work.seq}"]
            if kind == "never":
                lines.append(
                    f"\t - To our best knowledge, ranks [{names}] are the lagging ranks that caused this timeout. "
                    "They never joined any collectives"
                )
                mark: tuple[int, ...] = (2,)
            else:
                lines += [
                    "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
                    f"\t   - [{names}] finished collective #{work.seq - 1}, but didn't join collective #{work.seq} "
                    "(count from 1)",
                    "\t - Snapshot of ranks' latest states:",
                    f"\t   #{work.seq} started ranks:",
                    f"\t     [{rest}] started {work.op}",
                    f"\t   #{work.seq - 1} finished ranks:",
                    f"\t     [{names}] finished {work.op}",
                ]
                mark = (2, 3)
            says.append(_nccl.c10(rank, at + rng.uniform(0.02, 0.05), "\n".join(lines), 1480, evidence=mark))
        says.append(world_line(rng, job))
        return script(
            "collective_timeout",
            "missing_rank",
            job,
            culprits,
            says,
            exits=ends,
            fails_at=start,
            silent=tuple(culprits),
            peers=False,
        )

    return story


MESH: dict[str, Sequence[object]] = {"world_size": [8, 16, 32, 64], "torch_min": ["2.4"]}

SHELF.put("timeout-allreduce-silent", silence("grad", "one", "missing_rank"), NCCL, SEVERAL)
SHELF.put(
    "timeout-allreduce-silent-recorder",
    silence("grad", "one", "missing_rank", dump=True),
    NCCL,
    SEVERAL,
    torch_min=["2.3"],
)
SHELF.put(
    "timeout-allreduce-silent-stack",
    silence("grad", "one", "missing_rank", dump=True, trace=True),
    NCCL,
    SEVERAL,
    torch_min=["2.6"],
)
SHELF.put(
    "timeout-several-silent", silence("grad", "some", "missing_rank"), NCCL, SEVERAL, world_size=[5, 6, 8, 16, 32]
)
SHELF.put("timeout-node-silent", silence("grad", "node", "missing_rank"), NCCL, SEVERAL, nodes=[2, 3, 4, 8])
SHELF.put("timeout-fsdp-gather-silent", silence("gather", "one", "missing_rank"), NCCL, SEVERAL, torch_min=["1.12"])
SHELF.put(
    "timeout-fsdp-scatter-silent",
    silence("shard", "some", "missing_rank"),
    NCCL,
    SEVERAL,
    torch_min=["1.12"],
    world_size=[5, 8, 16, 32],
)
SHELF.put("timeout-experts-silent", silence("experts", "one", "missing_rank"), NCCL, SEVERAL, torch_min=["1.12"])
SHELF.put("timeout-broadcast-rank0", silence("broadcast", "rank0", "missing_rank"), NCCL, SEVERAL)
SHELF.put(
    "timeout-large-world",
    silence("grad", "one", "missing_rank"),
    NCCL,
    SEVERAL,
    world_size=[128, 256],
    torch_min=["2.0"],
)
SHELF.put(
    "timeout-rank0-eval",
    silence("barrier", "rank0", "barrier", ["epoch {e}: running evaluation on rank 0 ({n} samples)"]),
    NCCL,
    SEVERAL,
)
SHELF.put(
    "timeout-rank0-save",
    silence("barrier", "rank0", "barrier", ["Saving checkpoint to output/checkpoint-{n}", "merging shards ..."]),
    NCCL,
    SEVERAL,
)
SHELF.put(
    "timeout-rank0-tokenize",
    silence("barrier", "rank0", "barrier", ["tokenizing train split: {n} documents"]),
    NCCL,
    SEVERAL,
)
SHELF.put(
    "timeout-rank0-download",
    silence("barrier", "rank0", "barrier", ["Downloading dataset archive, {n} files"]),
    NCCL,
    SEVERAL,
)
SHELF.put(
    "timeout-eval-gather", silence("eval", "one", "missing_rank", ["evaluating shard: {n} samples left"]), NCCL, SEVERAL
)
SHELF.put(
    "timeout-lagging-allreduce", lagging("grad", False), NCCL, SEVERAL, world_size=[3, 4, 8, 16, 32], torch_min=["1.10"]
)
SHELF.put(
    "timeout-lagging-gather", lagging("gather", True), NCCL, SEVERAL, world_size=[3, 4, 8, 16, 32], torch_min=["2.3"]
)
SHELF.put("timeout-all-waiting", alike("grad"), NCCL, SEVERAL)
SHELF.put("timeout-all-waiting-recorder", alike("gather", dump=True), NCCL, SEVERAL, torch_min=["2.4"])
SHELF.put("timeout-one-node-of-many", alike("grad", larger=True), NCCL, SEVERAL, nodes=[1], world_size=[4, 8])
SHELF.put("timeout-group-tp", subgroup("grad", "mesh_tp", False), NCCL, MESH)
SHELF.put("timeout-group-dp", subgroup("shard", "mesh_dp", True), NCCL, MESH)
SHELF.put("timeout-group-sp-lagging", subgroup("experts", "mesh_ulysses", False, lag=True), NCCL, MESH)
SHELF.put("timeout-pipeline-stage", pipeline, NCCL, SEVERAL, world_size=[4, 8], torch_min=["2.3"])
SHELF.put("timeout-heartbeat-one", heartbeat(False), NCCL, SEVERAL, torch_min=["2.3"])
SHELF.put("timeout-heartbeat-all", heartbeat(True), NCCL, SEVERAL, torch_min=["2.3"])
SHELF.put("timeout-desync-never", desync("never"), NCCL, SEVERAL, torch_min=["1.13"], world_size=[3, 4, 8, 16, 32])
SHELF.put(
    "timeout-desync-snapshot", desync("snapshot"), NCCL, SEVERAL, torch_min=["1.13"], world_size=[3, 4, 8, 16, 32]
)
