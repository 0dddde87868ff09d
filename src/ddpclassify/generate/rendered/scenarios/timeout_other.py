"""Ranks wait for another in Python: gloo, the store, blocking NCCL calls, the program's own barriers."""

from __future__ import annotations

import random
from dataclasses import replace

from ..script import Exit, Job, Say, Script
from . import _gloo, _nccl
from ._common import (
    HEARD,
    NCCL,
    SEVERAL,
    Shelf,
    a_rank,
    draw_time,
    exits,
    main_frames,
    others,
    raised,
    ranks,
    script,
    some_ranks,
    stack,
    world_line,
)
from ._stuck import Story, draw_work

SHELF = Shelf("collective_timeout")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs


def store_get(rng: random.Random, job: Job) -> Script:
    """Rank 0 is still busy before the first collective: nobody else gets the NCCL id."""
    start = draw_time(rng, 90, 400)
    at = start + _nccl.draw_timeout(rng, job) / 1000
    verb = "retrieving" if job.torch >= (2, 0) else "retreiving"
    key, kind = rng.choice(["0", "0:1"]), _nccl.exception(rng, job, "system", "").split(":")[0]
    inner = f"wait timeout after 600000ms, keys: /default_pg/0//{key}" if job.torch >= (2, 4) else "Socket Timeout"
    says = [
        world_line(rng, job),
        Say(
            0,
            start - 1,
            rng.choice(
                [
                    "Tokenizing dataset (num_proc=8)",
                    "building index mappings ...",
                    "Loading annotations into memory...",
                    "Preprocessing 1,402,118 samples, this may take a while",
                ]
            ),
            "log",
            level="I",
            stream="stdout",
        ),
    ]
    for rank in others(job, [0]):
        error = (
            f"{kind}: [{rank}] is setting up NCCL communicator and {verb} ncclUniqueId from [0] via c10d key-value "
            f"store by key '{key}', but store->get('{key}') got error: {inner}"
        )
        if job.torch >= (2, 1):
            error += (
                f"\nException raised from {rng.choice(['doWait', 'recvBytes'])} at "
                f"{_nccl.path(job).replace(_nccl.PG, 'TCPStore.cpp')}:{rng.choice([596, 635])} (most recent call "
                "first):\n. This may indicate a possible application crash on rank 0 or a network set up issue."
            )
        frames = _gloo.call_frames(job, "barrier", "work = group.barrier(opts=opts)", "dist.barrier()")
        # The text itself says whom everybody waits for.
        says.append(replace(raised(job, rank, at + rng.uniform(0, 2), frames, error), names=(0,)))
    return script(
        "collective_timeout",
        "store_wait",
        job,
        [0],
        says,
        fails_at=start,
        silent=(0,),
        peers=False,
        exits=exits(rng, others(job, [0]), at + 2, 1),
    )


def blocking(rng: random.Random, job: Job) -> Script:
    """NCCL_BLOCKING_WAIT: a Python exception instead of the watchdog."""
    culprit = a_rank(rng, job)
    work, start = draw_work(rng, job, "grad"), draw_time(rng)
    at = start + work.timeout / 1000
    says = [world_line(rng, job)]
    kind = "torch.distributed.DistBackendError" if job.torch >= (2, 1) else "RuntimeError"
    for rank in others(job, [culprit]):
        head = f"{kind}: [Rank {rank}] " if job.torch >= (1, 12) else f"{kind}: "
        note = "(TORCH_NCCL_BLOCKING_WAIT=1)" if (2, 2) <= job.torch < (2, 7) else ""
        error = (
            f"{head}Work {work.text(job.torch)} timed out in blocking wait{note}."
            if job.torch >= (2, 1)
            else f"{head}{'Caught collective operation timeout: ' if job.torch < (2, 0) else ''}{work.text(job.torch)} "
            f"ran for {work.timeout + rng.randint(0, 90)} milliseconds before timing out."
            if rng.random() < 0.5
            else f"{head}{work.text(job.torch)} timed out in call to wait()."
        )
        frames = _gloo.call_frames(job, "all_reduce", "work.wait()", "dist.all_reduce(loss)")
        says.append(raised(job, rank, at + rng.uniform(0, 1), frames, error))
    return script(
        "collective_timeout",
        "missing_rank",
        job,
        [culprit],
        says,
        fails_at=start,
        silent=(culprit,),
        peers=False,
        exits=exits(rng, others(job, [culprit]), at + 1.5, 1),
    )


def gloo_recv(cascade: bool) -> Story:
    """Gloo has no watchdog: waiting ranks raise; with `cascade` only the neighbours do, the rest lose their pairs."""

    def story(rng: random.Random, job: Job) -> Script:
        culprit, start = a_rank(rng, job), draw_time(rng)
        ms = rng.choice([1_800_000, 1_800_000, 600_000, 300_000, 60_000])
        call = rng.choice(_gloo.CALLS)
        at = start + ms / 1000
        says, ends = [world_line(rng, job)], []
        for rank in others(job, [culprit]):
            near = not cascade or rank in ((culprit + 1) % job.world_size, (culprit - 1) % job.world_size)
            when = at + (rng.uniform(0, 0.4) if near else rng.uniform(0.8, 2))
            if near:
                error, mark = _gloo.timed_out(rng, job, ms), 0
            elif rng.random() < 0.3:
                error, mark = _gloo.text(rng, job, "pair", "Application timeout caused pair closure"), -1
            else:
                error, mark = _gloo.closed_by(rng, job, (rank - 1) % job.world_size), -1
            says.append(_gloo.failed(rng, job, rank, when, call, error, mark))
            ends.append(Exit(rank, when + 0.3, 1))
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

    return story


def monitored(several: bool, wrapped: bool) -> Story:
    """monitoredBarrier: rank 0 names who did not come."""

    def story(rng: random.Random, job: Job) -> Script:
        missing = sorted(
            rng.sample(range(1, job.world_size), rng.randint(2, min(4, job.world_size - 1)) if several else 1)
        )
        start, ms = draw_time(rng), rng.choice([30_000, 60_000, 300_000, 1_800_000])
        at = start + ms / 1000
        inner = _gloo.timed_out(rng, job, ms).removeprefix("RuntimeError: ")
        if several:
            text = f"[Rank 0]: Ranks {', '.join(map(str, missing))} failed to pass monitoredBarrier in {ms} ms"
        else:
            text = f"[Rank 0]: Rank {missing[0]} failed to pass monitoredBarrier in {ms} ms\n Original exception: \n"
            text += inner
        where = (
            "ProcessGroupWrapper: Monitored Barrier encountered error running collective: "
            "CollectiveFingerPrint(SequenceNumber=412, OpType=ALLREDUCE, TensorShape=[1024], TensorDtypes=Float, "
            "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda, layout=Strided (default), "
            "requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))). Error: "
            if wrapped
            else ""
        )
        source = "default_pg.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)"
        frames = _gloo.call_frames(job, "monitored_barrier", source, "dist.monitored_barrier()")
        if wrapped:
            frames = _gloo.call_frames(
                job, "all_reduce", "work = default_pg.allreduce([tensor], opts)", "dist.all_reduce(x)"
            )
        says = [
            Say(0, at, text, "c10", (0,), "E", "ProcessGroupGloo.cpp:2791", names=tuple(missing)),
            raised(job, 0, at + 0.01, frames, f"RuntimeError: {where}{text}"),
        ]
        for rank in others(job, [0, *missing]):
            error = (
                f"RuntimeError: {where}Rank {rank} successfully reached monitoredBarrier, but received errors while "
                "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n Original exception: \n"
                + _gloo.closed_by(rng, job, 0).removeprefix("RuntimeError: ")
            )
            says.append(raised(job, rank, at + rng.uniform(0.1, 1), frames, error, -1))
        return script(
            "collective_timeout",
            "barrier",
            job,
            missing,
            says,
            fails_at=start,
            silent=tuple(missing),
            peers=False,
            exits=exits(rng, others(job, missing), at + 1, 1),
        )

    return story


def store_key(rng: random.Random, job: Job) -> Script:
    """The program's own use of the store: rank 0 never sets the key."""
    start = draw_time(rng)
    key = rng.choice(["epoch_{}_saved", "sync/{}", "eval_done_{}", "ckpt_ready/{}"]).format(rng.randint(1, 90))
    ms = rng.choice([300_000, 600_000, 1_800_000])
    at = start + ms / 1000
    error = _gloo.store_error(job, ms, key)
    frames = [*main_frames(job), f"{{dir}}/{job.script}|wait_for_rank0|store.wait([key])"]
    says = [raised(job, rank, at + rng.uniform(0, 0.6), frames, error) for rank in others(job, [0])]
    says += [
        world_line(rng, job),
        Say(
            0,
            start - 2,
            rng.choice(["saving ...", "running validation", "writing predictions"]),
            "log",
            level="I",
            stream="stdout",
        ),
    ]
    return script(
        "collective_timeout",
        "store_wait",
        job,
        [0],
        says,
        fails_at=start,
        silent=(0,),
        peers=False,
        exits=exits(rng, others(job, [0]), at + 1, 1),
    )


def store_barrier(rng: random.Random, job: Job) -> Script:
    """new_group in the middle of a run: one rank never makes the group."""
    culprit, start = a_rank(rng, job), draw_time(rng)
    minutes = rng.choice([10, 30])
    at = start + 60 * minutes
    number, have = rng.randint(2, 9), job.world_size - 1
    frames = [
        *main_frames(job),
        f"{{dir}}/{job.script}|build_groups|group = dist.new_group(members)",
        "{site}/torch/distributed/distributed_c10d.py|new_group|_store_based_barrier(global_rank, default_store, "
        "timeout)",
    ]
    says = [world_line(rng, job)]
    for rank in others(job, [culprit]):
        on = f"on rank: {rank}, for" if job.torch < (2, 1) else f"on rank {rank}, for"
        kind = "torch.distributed.DistStoreError" if job.torch >= (2, 2) else "RuntimeError"
        error = (
            f"{kind}: Timed out initializing process group in store based barrier {on} key: "
            f"store_based_barrier_key:{number} (world_size={job.world_size}, num_workers_joined={have}, "
            f"timeout=0:{minutes}:00)"
        )
        says.append(raised(job, rank, at + rng.uniform(0, 10), frames, error))
    return script(
        "collective_timeout",
        "barrier",
        job,
        [culprit],
        says,
        fails_at=start,
        silent=(culprit,),
        peers=False,
        exits=exits(rng, others(job, [culprit]), at + 11, 1),
    )


def stack_dump(rng: random.Random, job: Job) -> Script:
    """A hang with dump_traceback_later on every rank: one stands elsewhere; nobody dies."""
    culprit, start = a_rank(rng, job), draw_time(rng)
    places = {
        True: rng.choice(
            [
                ["queue.py|get|x", "multiprocessing/queues.py|get|x"],
                ["ssl.py|read|x", "socket.py|readinto|x"],
                ["threading.py|wait|x", "dataset.py|__getitem__|x"],
            ]
        ),
        False: ["{site}/torch/distributed/distributed_c10d.py|all_reduce|x", "{dir}/engine.py|reduce_metrics|x"],
    }
    minutes = rng.choice([10, 20, 30])
    says = [world_line(rng, job)]
    for rank in ranks(job):
        frames = stack(job, [*places[rank == culprit], *main_frames(job)[::-1]])
        lines = [line.replace(", in ", " in ") for line in frames if line.startswith("  File")]
        head = [f"Timeout (0:{minutes}:00)!", f"Thread 0x00007f{rng.getrandbits(40):010x} (most recent call first):"]
        mark = (2, 3) if rank == culprit else ()
        says.append(Say(rank, start + 60 * minutes + rng.uniform(0, 0.5), "\n".join([*head, *lines]), evidence=mark))
    return script(
        "collective_timeout",
        "missing_rank",
        job,
        [culprit],
        says,
        fails_at=start,
        hang=True,
        peers=False,
        no_culprit_mark="unknown",
    )


def straggler_report(rng: random.Random, job: Job) -> Script:
    """The program's own barrier with a timeout lists who is late."""
    late, start = some_ranks(rng, job), draw_time(rng)
    seconds = rng.choice([120, 300, 900])
    step = rng.randint(100, 90_000)
    text = rng.choice(
        [
            f"sync point step={step}: no answer from ranks {late} within {seconds}s, giving up",
            f"StepBarrier timed out after {seconds} s at step {step}; arrived {job.world_size - len(late)}/"
            f"{job.world_size}, missing: {late}",
            f"heartbeat: ranks {late} have not reported progress for {seconds} seconds (last step {step})",
        ]
    )
    frames = [*main_frames(job), "{dir}/sync.py|wait_for_all|raise TimeoutError(msg)"]
    says = [
        Say(0, start + seconds, text, "log", (0,), names=tuple(late)),
        raised(job, 0, start + seconds + 0.1, frames, f"TimeoutError: {text}"),
    ]
    return script(
        "collective_timeout",
        "barrier",
        job,
        late,
        says,
        fails_at=start,
        silent=tuple(late),
        exits=[Exit(0, start + seconds + 1, 1)],
    )


SHELF.put("timeout-store-get-rank0", store_get, NCCL, SEVERAL, torch_min=["1.12"])
SHELF.put("timeout-blocking-wait", blocking, NCCL, SEVERAL, HEARD)
SHELF.put("timeout-gloo-recv", gloo_recv(False), NCCL, SEVERAL, HEARD, backend=["gloo"])
SHELF.put(
    "timeout-gloo-recv-cascade", gloo_recv(True), NCCL, SEVERAL, HEARD, backend=["gloo"], world_size=[4, 6, 8, 16]
)
SHELF.put("timeout-monitored-one", monitored(False, False), NCCL, SEVERAL, backend=["gloo"])
SHELF.put("timeout-monitored-several", monitored(True, False), NCCL, SEVERAL, backend=["gloo"], world_size=[4, 8, 16])
SHELF.put("timeout-monitored-detail", monitored(False, True), NCCL, SEVERAL, torch_min=["1.9"])
SHELF.put("timeout-store-key", store_key, SEVERAL, HEARD)
SHELF.put("timeout-store-barrier", store_barrier, NCCL, SEVERAL, HEARD, torch_min=["1.8"])
SHELF.put("timeout-stack-dump", stack_dump, NCCL, SEVERAL, world_size=[2, 4, 8])
SHELF.put("timeout-straggler-report", straggler_report, world_size=[4, 8, 16, 64])
