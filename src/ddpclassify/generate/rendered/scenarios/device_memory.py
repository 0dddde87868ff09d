"""Shared memory or GPU memory runs out."""

from __future__ import annotations

import random

from ..script import Exit, Job, Say, Script
from . import _cuda, _gloo, _nccl
from ._common import (
    NCCL,
    SEVERAL,
    Shelf,
    a_rank,
    backward_frames,
    draw_time,
    exits,
    hexa,
    main_frames,
    node_ranks,
    others,
    raised,
    script,
)
from ._stuck import Story, draw_work

SHM, CUDA = Shelf("shm_exhausted"), Shelf("cuda_oom")


# ---- shared memory ----------------------------------------------------------------------------------------------


def nccl_shm(text: str) -> Story:
    """NCCL can't make its segments: /dev/shm of the container is too small."""

    def story(rng: random.Random, job: Job) -> Script:
        start = draw_time(rng, 20, 90)
        those = node_ranks(job, rng.randrange(len(job.hosts)))
        says = []
        name = rng.choice(["nccl-{}", "nccl-shm-send-{}", "nccl-shm-recv-{}"])
        for rank in those:
            file = "/dev/shm/" + name.format(hexa(rng, 6))
            last = text.format(file=file, size=rng.choice([9637888, 33030528, 4194660]))
            t = start + rng.uniform(0, 0.4)
            if job.torch < (1, 13) or rng.random() < 0.6:
                says.append(
                    _nccl.warn(rank, t - 0.1, last, f"misc/shmutils.cc:{rng.choice([72, 87, 99, 114])}", evidence=True)
                )
            error = _nccl.exception(rng, job, "system", last)
            frames = _gloo.call_frames(
                job, "all_reduce", "work = default_pg.allreduce([tensor], opts)", "dist.all_reduce(x)"
            )
            mark = [error.count("\n")] if job.torch >= (1, 13) else []
            says.append(raised(job, rank, t, frames, error, *(mark or [-1])))
        return script(
            "shm_exhausted",
            "nccl_shm",
            job,
            those,
            says,
            start=start,
            fails_at=start,
            exits=exits(rng, those, start + 1, 1),
            no_culprit_mark="unknown",
        )

    return story


def torch_shm(kind: str) -> Story:
    """Torch's own shared files, in a loader worker or the manager process."""

    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng)
        name = f"/torch_{job.pids[rank] + 77}_{rng.randint(10**6, 10**9)}_{rng.randint(0, 400)}"
        size = rng.choice([2457600, 154140672, 19267584, 1605632])
        error = {
            "write": f"RuntimeError: unable to write to file <{name}>: No space left on device (28)",
            "mmap": f"RuntimeError: unable to mmap {size} bytes from file <{name}>: Cannot allocate memory (12)",
            "resize": f"RuntimeError: unable to resize file <{name}> to the right size: No space left on device (28)",
            "manager": f'RuntimeError: error executing torch_shm_manager at "{job.site}/torch/bin/torch_shm_manager" '
            "at ../torch/lib/libshm/core.cpp:99: could not create shared memory directory: No space left on device",
        }[kind]
        frames = [
            *main_frames(job),
            "{site}/torch/multiprocessing/reductions.py|reduce_storage|fd, size = storage._share_fd_cpu_()",
        ]
        if kind == "manager":
            frames[-1] = (
                "{site}/torch/multiprocessing/reductions.py|reduce_storage|metadata = storage._share_filename_cpu_()"
            )
        reason = {"manager": "shm_open"}.get(kind, "shm_full")
        says = [raised(job, rank, start, frames, error)]
        return script(
            "shm_exhausted",
            reason,
            job,
            [rank],
            says,
            exits=[Exit(rank, start + 1, 1)],
            fails_at=start,
            no_culprit_mark="unknown",
        )

    return story


def bus_exit(rng: random.Random, job: Job) -> Script:
    """A process dies of SIGBUS while it touches /dev/shm; a warning about its size came before."""
    rank, start = a_rank(rng, job), draw_time(rng)
    free = rng.choice([0, 8, 124])
    says = [
        Say(
            rank,
            start - 0.5,
            rng.choice(
                [
                    f"/dev/shm has only {free} kB left, the next batch may not fit",
                    "Bus error (core dumped) while writing to /dev/shm",
                    f"df /dev/shm: shm 65536 {65536 - free} {free} 100% /dev/shm",
                ]
            ),
            evidence=(0,),
        )
    ]
    return script(
        "shm_exhausted",
        "shm_full",
        job,
        [rank],
        says,
        exits=[Exit(rank, start, -7)],
        fails_at=start,
        table_is_evidence=True,
        no_culprit_mark="unknown",
    )


# ---- GPU memory among many ranks --------------------------------------------------------------------------------


def oom_then_wait(rng: random.Random, job: Job) -> Script:
    """One rank runs out of memory and is caught in cleanup; the rest wait and time out one timeout later."""
    rank, start = a_rank(rng, job), draw_time(rng)
    work = draw_work(rng, job, "grad")
    says = [raised(job, rank, start, backward_frames(job), _cuda.oom(rng, job, rank))]
    ends = [Exit(rank, start + work.timeout / 1000 + 70, 1)]
    for other in others(job, [rank]):
        said, end = _nccl.timeout(
            rng, job, other, work, start + work.timeout / 1000 + rng.uniform(0, 0.9), evidence=False
        )
        says += said
        ends.append(end)
    return script(
        "cuda_oom",
        "allocation",
        job,
        [rank],
        says,
        exits=ends,
        fails_at=start,
        silent=(rank,),
        peers=False,
        no_culprit_mark="unknown",
    )


def nccl_oom(async_: bool) -> Story:
    """Memory ends inside NCCL: its buffers no longer fit beside the model."""

    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng, 30, 400)
        texts = ["Cuda failure 'out of memory'"]
        if job.torch >= (2, 0):
            texts += [
                f"Failed to CUDA calloc {rng.choice([10485760, 6291456, 4194304])} bytes",
                f"Failed to CUDA calloc async {rng.choice([608, 4, 24])} bytes",
            ]
        if job.torch >= (2, 5):
            texts.append("Cuda failure 2 'out of memory'")
        last = rng.choice(texts)
        if async_:
            said, end = _nccl.async_error(rng, job, rank, draw_work(rng, job, "gather"), start, "cuda", last)
            return script("cuda_oom", "nccl", job, [rank], said, exits=[end], fails_at=start)
        error = _nccl.exception(rng, job, "cuda", last)
        says = []
        if job.torch < (1, 13) or rng.random() < 0.5:
            says.append(
                _nccl.warn(rank, start - 0.1, last, f"include/alloc.h:{rng.choice([48, 99, 175, 246])}", evidence=True)
            )
        frames = _gloo.call_frames(
            job, "all_gather", "work = default_pg.allgather([tensor_list], [tensor])", "dist.all_gather(outputs, x)"
        )
        mark = [error.count("\n")] if job.torch >= (1, 13) else [-1]
        says.append(raised(job, rank, start, frames, error, *mark))
        return script(
            "cuda_oom",
            "nccl",
            job,
            [rank],
            says,
            exits=[Exit(rank, start + 1, 1)],
            fails_at=start,
            no_culprit_mark="unknown",
        )

    return story


SHM.put(
    "shm-nccl-create",
    nccl_shm("Error: failed to create shared memory file {file}, error No space left on device (28)"),
    NCCL,
    SEVERAL,
    torch_min=["2.2"],
)
SHM.put(
    "shm-nccl-extend",
    nccl_shm("Error: failed to extend {file} to {size} bytes, error: No space left on device (28)"),
    NCCL,
    SEVERAL,
    torch_min=["2.1"],
)
SHM.put(
    "shm-nccl-call",
    nccl_shm("Call to posix_fallocate failed : No space left on device"),
    NCCL,
    SEVERAL,
    torch_max=["2.0"],
)
for word in ("write", "mmap", "resize", "manager"):
    SHM.put(f"shm-torch-{word}", torch_shm(word))
SHM.put("shm-bus-exit", bus_exit)
CUDA.put("cudaoom-watchdogs", oom_then_wait, NCCL, SEVERAL)
CUDA.put("cudaoom-nccl", nccl_oom(False), NCCL, SEVERAL)
CUDA.put("cudaoom-nccl-async", nccl_oom(True), NCCL, SEVERAL, torch_min=["1.13"])

SCENARIOS = SHM.scenarios | CUDA.scenarios
NEEDS = SHM.needs | CUDA.needs
