"""Texts of NCCL and of torch's watchdog, by release."""

from __future__ import annotations

import random

from ..script import Job, Say


def watchdog_origin(torch: tuple[int, int]) -> str:
    """Source position of the watchdog's first line in a release."""
    table = {(1, 8): 488, (1, 10): 587, (1, 12): 737, (1, 13): 821, (2, 0): 828, (2, 1): 475, (2, 2): 523, (2, 3): 563,
             (2, 4): 607, (2, 5): 616, (2, 6): 629, (2, 7): 632, (2, 8): 685, (2, 10): 688}  # fmt: skip
    return f"ProcessGroupNCCL.cpp:{next(line for release, line in reversed(table.items()) if torch >= release)}"


def group_prefix(torch: tuple[int, int], rank: int) -> str:
    """Head that names the default process group in a release's watchdog lines."""
    if torch >= (2, 5):
        return f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
    return f"[PG 0 (default_pg) Rank {rank}] " if torch >= (2, 4) else f"[PG 0 Rank {rank}] "


def work_text(torch: tuple[int, int], sequence: int, operation: str, numel: int, timeout_ms: int) -> str:
    """The stuck collective as the watchdog describes it."""
    if torch >= (2, 1):
        out = numel * 2 if "GATHER" in operation else numel
        return (
            f"WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn={numel}, NumelOut={out},"
            f" Timeout(ms)={timeout_ms})"
        )
    number = f"SeqNum={sequence}, " if torch >= (1, 10) else ""
    return f"WorkNCCL({number}OpType={operation}, TensorShape=[{numel}], Timeout(ms)={timeout_ms})"


def watchdog_says(
    rng: random.Random, job: Job, rank: int, t: float, sequence: int, operation: str, numel: int, timeout_ms: int,
    evidence: bool = False,
) -> tuple[list[Say], float]:  # fmt: skip
    """The lines of a rank whose collective timed out, and when it dies."""
    torch, origin, prefix = job.torch, watchdog_origin(job.torch), group_prefix(job.torch, rank)
    ran = timeout_ms + rng.randint(3, 980)
    work = work_text(torch, sequence, operation, numel, timeout_ms)
    caught = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {ran} milliseconds before timing"
        " out."
    )
    status = f"last enqueued {{0}}: {sequence + rng.randint(0, 3)}, last completed {{0}}: {sequence - 1}"
    says = [Say(rank, t, caught, kind="c10", origin=origin, evidence=(0,) if evidence else ())]
    if torch >= (2, 6):
        says.append(
            Say(
                rank,
                t + 0.001,
                f"{prefix} failure detected by watchdog at work sequence id: {sequence} PG status: "
                + status.format("work"),
                kind="c10",
                origin=_near(origin, 1600),
            )
        )
        says.append(
            Say(
                rank,
                t + 0.002,
                "Stack trace of the failed collective not found, potentially because FlightRecorder is "
                "disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.",
                kind="c10",
                origin=_near(origin, 53),
            )
        )
    elif torch >= (2, 3):
        at_work = status.format("NCCL work")
        head = f"{prefix}Exception (either an error or timeout) detected by watchdog at work: {sequence}, {at_work}."
        says.append(
            Say(
                rank,
                t + 0.001,
                head if torch >= (2, 4) else f"{prefix}Timeout at NCCL work: {sequence}, {at_work}.",
                kind="c10",
                origin=_near(origin, 1100),
            )
        )
    delay = rng.choice((0.01, rng.uniform(30, 60))) if torch >= (2, 3) else 0.01
    says += taken_down(job, rank, t + delay, caught, "checkTimeout")
    return says, t + delay + rng.uniform(0.2, 1.5)


def _near(origin: str, offset: int) -> str:
    name, _, line = origin.partition(":")
    return f"{name}:{int(line) + offset}"


def taken_down(job: Job, rank: int, t: float, cause: str, raised_from: str) -> list[Say]:
    """How the watchdog ends its process after an error."""
    torch, origin = job.torch, watchdog_origin(job.torch)
    mark = f"[Rank {rank}] " if torch >= (2, 4) else ""
    says = [
        Say(
            rank,
            t,
            f"{mark}Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels,"
            " subsequent GPU operations might run on corrupted/incomplete data.",
            kind="c10",
            origin=_near(origin, 14),
        ),
        Say(
            rank,
            t + 0.001,
            f"{mark}To avoid data inconsistency, we are taking the entire process down.",
            kind="c10",
            origin=_near(origin, 20),
        ),
    ]
    kind = "c10::DistBackendError" if torch >= (2, 1) else "std::runtime_error"
    stack = _stack(job, raised_from) if torch >= (2, 1) else ""
    if torch >= (2, 3):
        text = f"{group_prefix(torch, rank)}Process group watchdog thread terminated with exception: {cause}{stack}"
    elif torch >= (2, 0):
        text = f"[Rank {rank}] NCCL watchdog thread terminated with exception: {cause}"
    else:
        text = ""
    if text:
        says.append(Say(rank, t + 0.003, text, kind="c10", origin=_near(origin, 900)))
    says.append(
        Say(rank, t + 0.005, f"terminate called after throwing an instance of '{kind}'\n  what():  {text or cause}")
    )
    return says


def _stack(job: Job, function: str) -> str:
    root = "../torch/csrc" if job.torch < (2, 6) else "/pytorch/torch/csrc"
    lib = f"{job.site}/torch/lib"
    frames = (
        (f"c10::Error::Error(c10::SourceLocation, std::string) + 0x{0x57 + job.pids[0] % 64:x}", "libc10.so"),
        (
            (
                f"c10d::ProcessGroupNCCL::WorkNCCL::{function}(std::optional<std::chrono::duration<long, std::ratio<1l,"
                " 1000l> > >) + 0x1e1"
            ),
            "libtorch_cuda.so",
        ),
        ("c10d::ProcessGroupNCCL::watchdogHandler() + 0x1e8", "libtorch_cuda.so"),
        ("c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x10c", "libtorch_cuda.so"),
    )
    lines = [
        f"Exception raised from {function} at {root}/distributed/c10d/ProcessGroupNCCL.cpp:{565 + job.torch[1]} (most"
        " recent call first):"
    ]
    lines += [
        f"frame #{number}: {name} (0x{0x7F0000000000 + job.pids[0] * 4096 + number * 0x1A7:x} in {lib}/{where})"
        for number, (name, where) in enumerate(frames)
    ]
    lines.append("frame #4: <unknown function> + 0xdc253 (0x7f66f1bdc253 in /lib/x86_64-linux-gnu/libstdc++.so.6)")
    lines.append("frame #5: <unknown function> + 0x94ac3 (0x7f66f3694ac3 in /lib/x86_64-linux-gnu/libc.so.6)")
    return "\n" + "\n".join(lines) + "\n"


NCCL_VERSIONS: dict[tuple[int, int], str] = {
    (1, 8): "2.7.8",
    (1, 10): "2.10.3",
    (1, 13): "2.14.3",
    (2, 1): "2.18.1",
    (2, 2): "2.19.3",
    (2, 3): "2.20.5",
    (2, 5): "2.21.5",
    (2, 7): "2.26.2",
    (2, 8): "2.27.3",
    (2, 9): "2.27.5",
    (2, 12): "2.29.3",
}
"""NCCL bundled with releases of torch from the given one on."""


def nccl_version(torch: tuple[int, int]) -> str:
    """NCCL release bundled with a release of torch."""
    return next(version for release, version in reversed(NCCL_VERSIONS.items()) if torch >= release)


def nccl_error(rng: random.Random, job: Job, kind: str, peer: str, host: str) -> str:
    """An NCCL failure as the Python exception of the release (class included)."""
    torch = job.torch
    version = nccl_version(torch)
    modern = torch >= (1, 13)
    name = "torch.distributed.DistBackendError" if torch >= (2, 0) else "RuntimeError"
    root = "../torch/csrc/distributed/c10d" if torch < (2, 6) else "/pytorch/torch/csrc/distributed/c10d"
    if kind == "remote" and modern:
        reason = "remote process exited or there was a network error"
        lines = [
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
        ]
        last = rng.choice(
            (
                f"socketProgress: Connection closed by remote peer {host}<{peer.rsplit(':', 1)[-1]}>",
                (
                    f"NET/IB : Got completion from peer {peer[1:].replace(']:', '<')}> with error 12, opcode 32665, len"
                    " 0, vendor err 129"
                ),
                (
                    f"socketProgressOpt: Call to recv from {peer[1:].replace(']:', '<')}> failed : Connection reset by"
                    " peer"
                ),
            )
        )
        lines += ["Last error:", last]
    else:
        hint = " (run with NCCL_DEBUG=INFO for details)" if torch >= (2, 1) else ""
        reason = f"unhandled system error{hint}"
        lines = ["ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. "]
    return "\n".join(
        [
            (
                f"{name}: NCCL error in: {root}/ProcessGroupNCCL.cpp:{1000 + torch[1] * 61}, {reason}, NCCL version"
                f" {version}"
            ),
            *lines,
        ]
    )
