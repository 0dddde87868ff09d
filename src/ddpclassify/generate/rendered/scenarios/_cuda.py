"""CUDA errors and memory texts, by torch era."""

from __future__ import annotations

import random

from ..script import Exit, Job, Say
from ._common import raised, since
from ._nccl import Work, c10, pg_prefix, terminated

NAMES = {
    "uncorrectable ECC error encountered": "cudaErrorECCUncorrectable",
    "unspecified launch failure": "cudaErrorLaunchFailure",
    "unknown error": "cudaErrorUnknown",
    "an illegal memory access was encountered": "cudaErrorIllegalAddress",
    "device-side assert triggered": "cudaErrorAssert",
    "misaligned address": "cudaErrorMisalignedAddress",
    "CUDA-capable device(s) is/are busy or unavailable": "cudaErrorDevicesUnavailable",
    "hardware stack error": "cudaErrorHardwareStackError",
    "an illegal instruction was encountered": "cudaErrorIllegalInstruction",
    "Invalid access of peer GPU memory over nvlink or a hardware error": "cudaErrorNvlinkUncorrectable",
}


def message(job: Job, string: str) -> str:
    """`CUDA error: …` with the era's advice; the first line alone states the cause."""
    lines = [f"CUDA error: {string}"]
    if job.torch < (1, 9):
        return lines[0]
    if job.torch >= (2, 9):
        lines.append(
            f"Search for `{NAMES[string]}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html "
            "for more information."
        )
    space = " " if job.torch >= (2, 0) else ""
    lines.append(
        f"CUDA kernel errors might be asynchronously reported at some other API call,{space}so the stacktrace below "
        "might be incorrect."
    )
    lines.append("For debugging consider passing CUDA_LAUNCH_BLOCKING=1" + ("." if job.torch < (2, 4) else ""))
    if job.torch >= (2, 0):
        lines += ["Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.", ""]
    return "\n".join(lines)


def error(job: Job, string: str) -> str:
    kind = "torch.AcceleratorError" if job.torch >= (2, 9) else "RuntimeError"
    return f"{kind}: {message(job, string)}"


def watchdog(
    rng: random.Random, job: Job, rank: int, t: float, string: str, evidence: bool = True
) -> tuple[list[Say], Exit]:
    """The watchdog thread meets the device's error first and aborts the process."""
    prefix = pg_prefix(job, Work(0), rank)
    text = message(job, string)
    says = terminated(rng, job, rank, t, prefix, text, "query", 80)
    first = says[0]
    # Only the line with the error itself is the cause, not the copy in what().
    marked = Say(
        first.who, first.t, first.text, first.kind, (0,) if first.kind == "c10" else (1,), first.level, first.origin
    )
    return [marked if evidence else first, *says[1:]], Exit(rank, t + 0.3, -6)


def size(gib: float) -> str:
    return f"{gib:.2f} GiB" if gib >= 1 else f"{gib * 1024:.2f} MiB"


def oom(rng: random.Random, job: Job, rank: int) -> str:
    total = rng.choice([10.76, 15.77, 23.69, 31.74, 39.39, 47.54, 79.15, 139.81])
    device = job.local(rank) if job.cuda_visible_all else 0
    need = rng.choice([0.02, 0.125, 0.5, 1.16, 2.0, 3.94, 7.81])
    free = rng.uniform(0, need * 0.9)
    spare = rng.uniform(0.05, 1.2)
    used = total - free - spare - rng.uniform(0.3, 0.9)
    kind = since(
        job.torch,
        [((1, 8), "RuntimeError"), ((1, 13), "torch.cuda.OutOfMemoryError"), ((2, 4), "torch.OutOfMemoryError")],
    )
    head = f"{kind}: CUDA out of memory. Tried to allocate {size(need)}"
    doc = "See documentation for Memory Management"
    if job.torch < (2, 1):
        text = (
            f"{head} (GPU {device}; {size(total)} total capacity; {size(used)} already allocated; {size(free)} free; "
            f"{size(used + spare)} reserved in total by PyTorch)"
        )
        if job.torch >= (1, 10):
            text += (
                " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  "
                f"{doc} and PYTORCH_CUDA_ALLOC_CONF"
            )
        return text
    word = "capacty" if job.torch < (2, 2) else "capacity"
    hint = "max_split_size_mb" if job.torch < (2, 2) else "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    url = "" if job.torch < (2, 2) else "  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    return (
        f"{head}. GPU {device} has a total {word} of {size(total)} of which {size(free)} is free. Including "
        f"non-PyTorch memory, this process has {size(total - free)} memory in use. Of the allocated memory "
        f"{size(used)} is allocated by PyTorch, and {size(spare)} is reserved by PyTorch but unallocated. If reserved "
        f"but unallocated memory is large try setting {hint} to avoid fragmentation.  "
        f"{doc}{url or ' and PYTORCH_CUDA_ALLOC_CONF'}"
    )


def fails(job: Job, rank: int, t: float, frames: list[str], string: str) -> Say:
    return raised(job, rank, t, frames, error(job, string))


__all__ = ["c10", "error", "fails", "message", "oom", "size", "watchdog"]
