"""GPUs asked for wrongly, drivers, limits of the system, and CUDA errors met by the watchdog thread."""

from __future__ import annotations

import random

from ..script import SYSTEM, Exit, Job, Say, Script
from . import _cuda, _gloo, _nccl
from ._common import (
    NCCL,
    SEVERAL,
    Shelf,
    a_rank,
    draw_time,
    early,
    exits,
    node_of,
    node_ranks,
    raised,
    ranks,
    script,
)
from ._stuck import Story

CONFIG, DEVICES, LIMITS, KERNELS = (
    Shelf(name) for name in ("launch_config", "gpu_environment", "resource_limit", "cuda_error")
)


def duplicate(both: bool) -> Story:
    """Two ranks sit on one GPU; NCCL refuses."""

    def story(rng: random.Random, job: Job) -> Script:
        a, b = sorted(rng.sample(ranks(job)[: job.per_node], 2))
        start = draw_time(rng, 15, 90)
        bus = f"{rng.choice([0x1B, 0x3B, 0x17, 0xCA, 0x7]):x}000"
        those, says = ([a, b] if both else list(ranks(job))), []
        frames = _gloo.call_frames(job, "barrier", "work = default_pg.barrier(opts=opts)", "dist.barrier()")
        for rank in those:
            last = f"Duplicate GPU detected : rank {a} and rank {b} both on CUDA device {bus}"
            if rank == b:
                last = f"Duplicate GPU detected : rank {b} and rank {a} both on CUDA device {bus}"
            t = start + rng.uniform(0, 0.3)
            if job.torch < (1, 13) or rng.random() < 0.5:
                says.append(_nccl.warn(rank, t - 0.1, last, f"init.cc:{rng.choice([521, 795, 943])}", evidence=True))
            error = _nccl.exception(rng, job, "usage", last)
            mark = [0, error.count("\n")] if job.torch >= (1, 13) else [0]
            says.append(raised(job, rank, t, frames, error, *mark))
        return script(
            "launch_config",
            "duplicate_gpu",
            job,
            those,
            says,
            start=start,
            fails_at=start,
            peers=both,
            exits=exits(rng, those, start + 1, 1),
            no_culprit_mark="unknown",
        )

    return story


def rank_range(rng: random.Random, job: Job) -> Script:
    """A rank beyond the world size that NCCL was given."""
    start, rank = draw_time(rng, 15, 60), job.world_size - 1
    error = _nccl.exception(rng, job, "usage", f"Invalid rank requested : {job.world_size}/{job.world_size}")
    error = (
        error.replace(
            "invalid usage (run with NCCL_DEBUG=WARN for details)",
            "invalid argument (run with NCCL_DEBUG=WARN for details)",
        )
        .replace(
            "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
            "ncclInvalidArgument: Invalid value for an argument.",
        )
        .replace("invalid usage", "invalid argument")
    )
    frames = _gloo.call_frames(job, "barrier", "work = default_pg.barrier(opts=opts)", "dist.barrier()")
    mark = [0, error.count("\n")] if job.torch >= (1, 13) else [0]
    return script(
        "launch_config",
        "rank_out_of_range",
        job,
        [rank],
        [raised(job, rank, start, frames, error, *mark)],
        start=start,
        fails_at=start,
        exits=[Exit(rank, start + 1, 1)],
        no_culprit_mark="unknown",
    )


def nccl_environment(text: str, reason: str, result: str) -> Story:
    def story(rng: random.Random, job: Job) -> Script:
        start = draw_time(rng, 15, 60)
        those = (
            list(ranks(job))
            if rng.random() < 0.5 or len(job.hosts) == 1
            else node_ranks(job, rng.randrange(len(job.hosts)))
        )
        last, says = text.format(a=rng.choice([11040, 11060]), b=rng.choice([12020, 12040])), []
        frames = _gloo.call_frames(
            job, "broadcast", "work = default_pg.broadcast([tensor], opts)", "dist.broadcast(x, 0)"
        )
        for rank in those:
            t = start + rng.uniform(0, 0.3)
            says.append(
                _nccl.warn(rank, t - 0.1, last, f"misc/cudawrap.cc:{rng.choice([36, 112, 182])}", evidence=True)
            )
            error = _nccl.exception(rng, job, result, last)
            mark = [error.count("\n")] if job.torch >= (1, 13) else [-1]
            says.append(raised(job, rank, t, frames, error, *mark))
        return script(
            "gpu_environment",
            reason,
            job,
            those,
            says,
            start=start,
            fails_at=start,
            exits=exits(rng, those, start + 1, 1),
            no_culprit_mark="unknown",
        )

    return story


def memlock(rng: random.Random, job: Job) -> Script:
    """InfiniBand can't pin its buffers: `ulimit -l` is small on a node."""
    those = node_ranks(job, rng.randrange(len(job.hosts)))
    start, says = draw_time(rng, 15, 90), []
    tail = " errno 12" if job.torch >= (2, 3) else ""
    call = rng.choice(["ibv_reg_mr", "ibv_reg_mr_iova2", "ibv_create_cq"])
    last = f"Call to {call} failed with error Cannot allocate memory{tail}"
    frames = _gloo.call_frames(job, "all_reduce", "work = default_pg.allreduce([tensor], opts)", "dist.all_reduce(x)")
    for rank in those:
        t = start + rng.uniform(0, 0.3)
        if node_of(job, rank) and rng.random() < 0.3:
            says.append(
                Say(
                    rank,
                    t - 0.5,
                    "libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.\n    This will severely limit memory "
                    "registrations.",
                    evidence=(0,),
                )
            )
        says.append(_nccl.warn(rank, t - 0.1, last, f"misc/ibvwrap.cc:{rng.choice([262, 120, 170])}", evidence=True))
        error = _nccl.exception(rng, job, "system", last)
        says.append(raised(job, rank, t, frames, error, *([error.count("\n")] if job.torch >= (1, 13) else [-1])))
    return script(
        "resource_limit",
        "locked_memory",
        job,
        those,
        says,
        start=start,
        fails_at=start,
        exits=exits(rng, those, start + 1, 1),
        no_culprit_mark="unknown",
    )


def openib_box(rng: random.Random, job: Job) -> Script:
    """Open MPI's warning box about registerable memory, followed by its abort."""
    start = draw_time(rng, 4, 12)
    bar = "-" * 74
    lines = [
        bar,
        "The OpenFabrics (openib) BTL failed to initialize while trying to",
        "allocate some locked memory.  This typically can indicate that the",
        "memlock limits are set too low.",
        f"  Local host:    {job.hosts[0]}",
        "  OMPI source:   btl_openib.c:828",
        "  Function:      opal_free_list_init()",
        "  Device:        mlx5_0",
        "  Memlock limit: 65536",
        bar,
    ]
    says = [Say(SYSTEM, start, "\n".join(lines), evidence=(1, 2, 3))]
    return early(
        "resource_limit",
        "locked_memory",
        job,
        "launcher",
        says,
        exits(rng, ranks(job), start + 1, 1),
        start,
        peers=False,
    )


def threads(kind: str) -> Story:
    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng, 20, 2000)
        if kind == "openmp":
            text = rng.choice(
                [
                    "libgomp: Thread creation failed: Resource temporarily unavailable",
                    "OMP: Error #34: System unable to allocate necessary resources for OMP thread:\nOMP: System error "
                    "#11: Resource temporarily unavailable",
                ]
            )
            mark, code = tuple(range(text.count("\n") + 1)), rng.choice([1, -6])
        elif kind == "openblas":
            text = (
                f"OpenBLAS blas_thread_init: pthread_create failed for thread {rng.randint(3, 60)} of 64: Resource "
                "temporarily unavailable\nOpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 4096 max"
            )
            mark, code = (0, 1), -11
        else:
            text = "terminate called after throwing an instance of 'std::system_error'\n"
            text += "  what():  Resource temporarily unavailable"
            mark, code = (1,), -6
        return script(
            "resource_limit",
            "threads",
            job,
            [rank],
            [Say(rank, start, text, evidence=mark)],
            exits=[Exit(rank, start + 0.2, code)],
            fails_at=start,
            no_culprit_mark="unknown",
        )

    return story


def cuda_thread(string: str, reason: str) -> Story:
    """The watchdog thread meets a kernel's error first; the asserting kernel printed before."""

    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng)
        says: list[Say] = []
        if reason == "device_assert":
            file = rng.choice(
                [
                    "IndexKernel.cu:92: operator()",
                    "Indexing.cu:1289: indexSelectLargeIndex",
                    "ScatterGatherKernel.cu:144: operator()",
                ]
            )
            condition = "srcIndex < srcSelectDimSize" if "Select" in file else "index out of bounds"
            lines = [
                f"../aten/src/ATen/native/cuda/{file}: block: [{rng.randint(0, 90)},0,0], thread: [{i},0,0] Assertion "
                f"`{condition}` failed."
                for i in range(rng.randint(3, 40))
            ]
            says.append(Say(rank, start - 0.05, "\n".join(lines), evidence=(0,)))
        said, end = _cuda.watchdog(rng, job, rank, start, string)
        return script("cuda_error", reason, job, [rank], says + said, exits=[end], fails_at=start)

    return story


CONFIG.put("launch-duplicate-two", duplicate(True), NCCL, SEVERAL, torch_min=["1.10"], nodes=[1])
CONFIG.put("launch-duplicate-all", duplicate(False), NCCL, SEVERAL, torch_min=["1.10"], nodes=[1])
CONFIG.put("launch-nccl-rank", rank_range, NCCL, SEVERAL)
DEVICES.put(
    "gpuenv-nccl-driver",
    nccl_environment("CUDA Driver version found is {a}. Minimum requirement is {b}", "driver_too_old", "cuda"),
    NCCL,
    torch_min=["1.13"],
)
DEVICES.put(
    "gpuenv-nccl-insufficient",
    nccl_environment(
        "Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'", "driver_too_old", "cuda"
    ),
    NCCL,
)
DEVICES.put(
    "gpuenv-nccl-not-ready",
    nccl_environment("Cuda failure 'system not yet initialized'", "fabric_manager", "cuda"),
    NCCL,
)
LIMITS.put("limit-memlock-nccl", memlock, NCCL, SEVERAL)
LIMITS.put("limit-memlock-openib", openib_box, launcher=["mpirun"])
for word in ("openmp", "openblas", "terminate"):
    LIMITS.put(f"limit-threads-{word}", threads(word))
KERNELS.put(
    "cuda-watchdog-illegal",
    cuda_thread("an illegal memory access was encountered", "illegal_access"),
    NCCL,
    torch_min=["1.12"],
)
KERNELS.put(
    "cuda-watchdog-assert",
    cuda_thread("device-side assert triggered", "device_assert"),
    NCCL,
    torch_min=["1.12"],
)
KERNELS.put("cuda-watchdog-misaligned", cuda_thread("misaligned address", "misaligned"), NCCL, torch_min=["1.12"])
KERNELS.put(
    "cuda-watchdog-launch",
    cuda_thread("unspecified launch failure", "launch_failure"),
    NCCL,
    torch_min=["1.12"],
)
SCENARIOS = CONFIG.scenarios | DEVICES.scenarios | LIMITS.scenarios | KERNELS.scenarios
NEEDS = CONFIG.needs | DEVICES.needs | LIMITS.needs | KERNELS.needs
