"""A GPU is faulty without an Xid in the log: ECC errors, lost devices, switches, health checks."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..script import Exit, Job, Script
from . import _cuda, _nccl, _system
from ._common import NCCL, Shelf, a_rank, backward_frames, draw_time, main_frames, node_of, raised, script, system
from ._stuck import Story, draw_work

SHELF = Shelf("gpu_hardware")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
CATEGORY = SHELF.category


def ecc(style: str) -> Story:
    """Only the process's own CUDA error tells."""

    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng)
        string = "uncorrectable ECC error encountered"
        if style == "thc":
            error = (
                "RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /pytorch/aten/src/THC/"
                + rng.choice(["THCCachingHostAllocator.cpp:278", "THCGeneral.cpp:313", "generic/THCTensorCopy.cpp:33"])
            )
            says = [raised(job, rank, start, backward_frames(job), error)]
        elif style == "watchdog":
            said, end = _cuda.watchdog(rng, job, rank, start, string)
            return script(CATEGORY, "ecc", job, [rank], said, exits=[end], fails_at=start)
        elif style == "nccl":
            said, end = _nccl.async_error(
                rng,
                job,
                rank,
                draw_work(rng, job, "grad"),
                start,
                "cuda",
                f"Cuda failure {'214 ' if job.torch >= (2, 5) else ''}'{string}'",
            )
            return script(CATEGORY, "ecc", job, [rank], said, exits=[end], fails_at=start)
        elif style == "transfer":
            frames = [*main_frames(job), f"{{dir}}/{job.script}|to_device|return batch.to(device, non_blocking=True)"]
            says = [_cuda.fails(job, rank, start, frames, string)]
        else:
            says = [_cuda.fails(job, rank, start, backward_frames(job), string)]
        return script(
            CATEGORY,
            "ecc",
            job,
            [rank],
            says,
            exits=[Exit(rank, start + 1, 1)],
            fails_at=start,
            no_culprit_mark="unknown",
        )

    return story


def string_only(string: str, reason: str) -> Story:
    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng)
        says = [_cuda.fails(job, rank, start, backward_frames(job), string)]
        return script(
            CATEGORY,
            reason,
            job,
            [rank],
            says,
            exits=[Exit(rank, start + 1, 1)],
            fails_at=start,
            no_culprit_mark="unknown",
        )

    return story


def lost(kind: str) -> Story:
    """nvidia-smi or NVML can't reach a GPU; the rank on it fails."""

    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng)
        bus = _system.pci(job, job.local(rank)).upper()
        text = {
            "handle": f"Unable to determine the device handle for "
            f"GPU{rng.choice([' ', f'{job.local(rank)}: '])}0000{bus}.0: GPU is lost.  Reboot the system to recover "
            "this GPU",
            "unknown": f"Unable to determine the device handle for GPU {bus}.0: Unknown Error",
            "nvml": f"pynvml.NVMLError_GpuIsLost: GPU is lost (device {job.local(rank)})",
        }[kind]
        frames = [
            *main_frames(job),
            "{dir}/monitor.py|log_gpu_stats|util = pynvml.nvmlDeviceGetUtilizationRates(handle)",
            "{site}/pynvml.py|_nvmlCheckReturn|raise NVMLError(ret)",
        ]
        if kind == "nvml":
            says = [raised(job, rank, start, frames, "pynvml.NVMLError_GpuIsLost: GPU is lost")]
        else:
            says = [
                system(start + 2, text, 0, node=node_of(job, rank)),
                _cuda.fails(job, rank, start, backward_frames(job), "unknown error"),
            ]
        return script(
            CATEGORY,
            "gpu_lost",
            job,
            [rank],
            says,
            exits=[Exit(rank, start + 1, 1)],
            fails_at=start,
            no_culprit_mark="unknown",
        )

    return story


def switch(rng: random.Random, job: Job) -> Script:
    """NVSwitch error: all GPUs of the node lose NVLink; the first rank there to report is anybody."""
    rank, start = a_rank(rng, job), draw_time(rng)
    sxid = rng.choice(
        [
            "12028, Non-fatal, Link {} egress non-posted PRIV error",
            "20034, Fatal, Link {} LTSSM Fault Up",
            "22013, Fatal, Link {} minion Link DLREQ interrupt",
            "19084, Fatal, Link {} AN1 Heartbeat Timeout Error",
        ]
    )
    line = (
        f"nvidia-nvswitch{rng.randint(0, 5)}: SXid (PCI:0000:{rng.randint(16, 240):02x}:00.0): "
        f"{sxid.format(rng.randint(0, 35))} (First)"
    )
    again = (
        f"NVRM: Xid (PCI:{_system.pci(job, job.local(rank))}): 74, pid='<unknown>', name=<unknown>, NVLink: fatal "
        f"error detected on link {rng.randint(0, 11)}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    )
    says = [_system.kernel_says(job, start, node_of(job, rank), [line, again], rng.randint(0, 3), 0, 1)]
    said, end = _nccl.async_error(
        rng,
        job,
        rank,
        draw_work(rng, job, "grad"),
        start + 1,
        "cuda",
        "Cuda failure 'unspecified launch failure'",
        evidence=False,
    )
    return script(CATEGORY, "nvlink", job, [rank], says + said, exits=[end], fails_at=start)


SCHEDULER: dict[str, Sequence[object]] = {"launcher": ["srun"]}
CHECKS: dict[str, tuple[str, list[str]]] = {
    "prolog": (
        "xid",
        [
            "slurmstepd: error: prolog: gpu health check failed on {host}: GPU {local} ({bus}) reports Xid 79",
            "error: task_prolog: {host}: GPU {local}: uncorrectable ECC errors found, draining node",
        ],
    ),
    "nhc": (
        "ecc",
        [
            "ERROR:  nhc:  Health check failed:  check_nv_healthmon:  GPU {local} has 2 uncorrected volatile ECC "
            "errors",
            "ERROR:  nhc:  Health check failed:  check_nvsmi_healthmon:  problem with GPU {bus}",
        ],
    ),
    "dcgm": (
        "ecc",
        [
            "| GPU Memory                | Fail - GPU: {local}                                |\n| Warning: GPU "
            "{local} "
            "Uncorrectable volatile DBE detected, replace the device |",
            "Health Monitor Report\n| Overall Health: Failure |\n| GPU {local} | Memory: Failure - A DBE has been "
            "detected in GPU {local}'s memory. |",
        ],
    ),
    "remap": (
        "row_remap",
        [
            "preflight {host}: GPU {local} ({bus}): remapped rows pending=Yes, failure=Yes: reset or replace "
            "before use",
            "gpu-check: {host} gpu{local}: Row Remapping Failure Occurred : Yes",
        ],
    ),
    "nvlink": (
        "nvlink",
        [
            "preflight {host}: GPU {local}: nvlink status: Link 4: <inactive>",
            "nvlink check failed on {host}: GPU {local} link 7 CRC errors 81220, replay errors 311",
        ],
    ),
}


def check(kind: str, before: bool) -> Story:
    """A health check stops the job, before any rank starts or in its midst (scope launcher)."""

    def story(rng: random.Random, job: Job) -> Script:
        rank = a_rank(rng, job)
        reason, texts = CHECKS[kind]
        start = draw_time(rng, 2, 8) if before else draw_time(rng)
        text = rng.choice(texts).format(
            host=job.host(rank), local=job.local(rank), bus=_system.pci(job, job.local(rank))
        )
        mark = tuple(
            i
            for i, line in enumerate(text.split("\n"))
            if "Fail" in line or "GPU" in line or "gpu" in line or "nvlink" in line
        )
        says = [
            system(start, text, *mark, node=node_of(job, rank)),
            system(
                start + 0.5, rng.choice(["health check failed, not starting the job", "draining node, job stopped"]), -1
            ),
        ]
        more = {"in_group": False, "start": start, "fails_at": start} if before else {"fails_at": start}
        return script(CATEGORY, reason, job, "launcher", says, peers=False, **more)

    return story


for kind in ("backward", "transfer", "watchdog", "nccl"):
    SHELF.put(f"gpuhw-ecc-{kind}", ecc(kind), NCCL, torch_min=["1.12" if kind in ("watchdog", "nccl") else "1.8"])
SHELF.put("gpuhw-ecc-thc", ecc("thc"), NCCL, torch_max=["1.8"])
SHELF.put("gpuhw-hardware-stack", string_only("hardware stack error", "xid"), NCCL)
SHELF.put(
    "gpuhw-nvlink-peer",
    string_only("Invalid access of peer GPU memory over nvlink or a hardware error", "nvlink"),
    NCCL,
)
for kind in ("handle", "unknown", "nvml"):
    SHELF.put(f"gpuhw-lost-{kind}", lost(kind), NCCL)
SHELF.put("gpuhw-nvswitch", switch, NCCL, world_size=[4, 8, 16], torch_min=["1.13"])
for kind in CHECKS:
    # Prologs and node health checks are the scheduler's.
    SHELF.put(f"gpuhw-check-{kind}", check(kind, kind != "dcgm"), **SCHEDULER if kind in ("prolog", "nhc") else {})
