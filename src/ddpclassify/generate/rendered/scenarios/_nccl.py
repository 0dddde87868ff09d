"""What c10d's NCCL process group prints when a collective hangs or breaks, by torch era."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..script import Exit, Job, Say
from ._common import Version, c10_stack, exits, hexa, ip, port, since

PG = "ProcessGroupNCCL.cpp"

# Lines of ProcessGroupNCCL.cpp that speak, per release: timeout, exception seen, data warning, taking down, terminated.
_LINES: list[tuple[Version, tuple[int, int, int, int, int]]] = [
    ((1, 8), (565, 325, 325, 330, 485)),
    ((1, 10), (566, 325, 325, 330, 569)),
    ((1, 12), (737, 414, 414, 419, 740)),
    ((1, 13), (821, 456, 456, 461, 825)),
    ((2, 0), (828, 455, 455, 460, 915)),
    ((2, 1), (475, 474, 489, 495, 916)),
    ((2, 2), (523, 525, 537, 543, 1182)),
    ((2, 3), (563, 1537, 577, 583, 1414)),
    ((2, 4), (607, 1664, 621, 627, 1515)),
    ((2, 5), (616, 1785, 630, 636, 1595)),
    ((2, 6), (629, 2168, 681, 695, 1895)),
    ((2, 7), (632, 2268, 697, 711, 1901)),
    ((2, 8), (683, 2241, 744, 758, 2057)),
    ((2, 9), (688, 2287, 749, 763, 2073)),
    ((2, 11), (712, 2341, 771, 785, 2119)),
]

VERSIONS: list[tuple[Version, str]] = [
    ((1, 8), "2.7.8"),
    ((1, 10), "2.10.3"),
    ((1, 13), "2.14.3"),
    ((2, 1), "2.18.1"),
    ((2, 2), "2.19.3"),
    ((2, 3), "2.20.5"),
    ((2, 5), "2.21.5"),
    ((2, 7), "2.26.2"),
    ((2, 8), "2.27.3"),
    ((2, 9), "2.27.5"),
    ((2, 12), "2.28.9"),
]

_DATA = (
    "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU "
    "operations might run on corrupted/incomplete data."
)
_DOWN = "To avoid data inconsistency, we are taking the entire process down."
_NO_TRACE = (
    "Stack trace of the failed collective not found, potentially because FlightRecorder is disabled. You can enable "
    "it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value."
)
_WHY = (
    "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the order of "
    "collectives is not same for all ranks or the scheduled collective, for some reason, didn't run. Additionally, "
    "this can be caused by GIL deadlock or other reasons such as network errors or bugs in the communications library "
    "(e.g. NCCL), etc. "
)
_CHRONO = "std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >"


@dataclass(frozen=True)
class Work:
    """One collective as a rank sees it. `seq` counts per process group, which `group` and `guid` name."""

    seq: int
    op: str = "ALLREDUCE"
    numel: int = 1
    numel_out: int = 0  # 0: as numel
    timeout: int = 600_000
    ahead: int = 0  # enqueued after this one
    group: int = 0
    guid: str = "0(default_pg)"

    def text(self, torch: Version) -> str:
        head = f"SeqNum={self.seq}, OpType={self.op}" if torch >= (1, 10) else f"OpType={self.op}"
        out = self.numel_out or self.numel
        size = f"NumelIn={self.numel}, NumelOut={out}" if torch >= (2, 1) else f"TensorShape=[{self.numel}]"
        return f"WorkNCCL({head}, {size}, Timeout(ms)={self.timeout})"


def draw_timeout(rng: random.Random, job: Job) -> int:
    usual = 600_000 if job.torch >= (2, 2) else 1_800_000
    return rng.choice([usual, usual, usual, 300_000, 1_200_000, 1_800_000, 3_600_000, 5_400_000])


def pg_prefix(job: Job, work: Work, rank: int) -> str:
    """`rank` counts inside the group."""
    if job.torch < (2, 3):
        return f"[Rank {rank}] "
    if job.torch < (2, 5):
        return f"[PG {work.group} Rank {rank}] "
    return f"[PG ID {work.group} PG GUID {work.guid} Rank {rank}] "


def c10(rank: int, t: float, text: str, line: int, level: str = "E", evidence: tuple[int, ...] = ()) -> Say:
    return Say(rank, t, text, "c10", evidence, level, f"{PG}:{line}")


def path(job: Job) -> str:
    return f"{'/pytorch' if job.torch >= (2, 6) else '..'}/torch/csrc/distributed/c10d/{PG}"


def terminated(
    rng: random.Random, job: Job, rank: int, t: float, prefix: str, why: str, where: str, line: int
) -> list[Say]:
    """The watchdog thread dies of `why` and takes the process with it (SIGABRT)."""
    name = "Process group" if job.torch >= (2, 3) else "NCCL"
    text = f"{prefix}{name} watchdog thread terminated with exception: {why}"
    inner = c10_stack(
        rng,
        job,
        where,
        f"{path(job)}:{line}",
        [
            f"c10d::ProcessGroupNCCL::WorkNCCL::{where}({_CHRONO if where == 'checkTimeout' else ''})",
            "c10d::ProcessGroupNCCL::Watchdog::runLoop()"
            if job.torch >= (2, 8)
            else "c10d::ProcessGroupNCCL::watchdogHandler()",
            "c10d::ProcessGroupNCCL::ncclCommWatchdog()",
        ],
    )
    full = "\n".join([text, *inner]) if job.torch >= (2, 2) else text
    says = [c10(rank, t, full, since(job.torch, _LINES)[4])] if job.torch >= (2, 0) else []
    kind = "c10::DistBackendError" if job.torch >= (2, 1) else "std::runtime_error"
    what = full if job.torch >= (2, 0) else why
    if job.torch >= (2, 2):
        outer = f"{path(job)}:{since(job.torch, _LINES)[4] + 4}"
        what = "\n".join([what, *c10_stack(rng, job, "ncclCommWatchdog", outer, ["<unknown function>"])])
    says.append(Say(rank, t + 0.01, f"terminate called after throwing an instance of '{kind}'\n  what():  {what}"))
    return says


def caught(job: Job, work: Work, rank: int, ran: int) -> str:
    return (
        f"[Rank {rank}] Watchdog caught collective operation timeout: {work.text(job.torch)} ran for {ran} "
        "milliseconds before timing out."
    )


def timeout(
    rng: random.Random,
    job: Job,
    rank: int,
    work: Work,
    t: float,
    *,
    group_rank: int | None = None,
    evidence: bool = True,
    trace: list[str] | None = None,
    dump: int | None = None,
) -> tuple[list[Say], Exit]:
    """A waiting rank's watchdog, from the timeout to SIGABRT.

    `trace` is the flight recorder's stack of the collective; `dump` the first rank to report (None: no recorder).
    """
    inside = rank if group_rank is None else group_rank
    lines = since(job.torch, _LINES)
    prefix = pg_prefix(job, work, inside)
    message = caught(job, work, inside, work.timeout + rng.randint(0, 900))
    says = [c10(rank, t, message, lines[0], evidence=(0,) if evidence else ())]
    last, done = work.seq + work.ahead, work.seq - 1
    who = f"[Rank {inside}] " if job.torch >= (2, 3) else ""
    if job.torch >= (2, 6):
        state = f"PG status: last enqueued work: {last}, last completed work: {done}"
        says.append(
            c10(
                rank,
                t + 0.001,
                f"{prefix} failure detected by watchdog at work sequence id: {work.seq} {state}",
                lines[1],
            )
        )
        text = "Stack trace of the failed collective: \n" + "\n".join(trace) + "\n" if trace else _NO_TRACE
        says.append(c10(rank, t + 0.002, text, lines[0] + 38))
        if job.torch >= (2, 7):
            says.append(c10(rank, t + 0.003, f"{prefix}First PG on this rank to signal dumping.", lines[1] - 165))
    elif job.torch >= (2, 3):
        state = f"at NCCL work: {work.seq}, last enqueued NCCL work: {last}, last completed NCCL work: {done}."
        if job.torch >= (2, 4):
            seen = state.replace("at NCCL work", "detected by watchdog at work")
            says.append(c10(rank, t + 0.001, f"{prefix}Exception (either an error or timeout) {seen}", lines[1]))
        says.append(c10(rank, t + 0.002, f"{prefix}Timeout {state}", lines[1] + 45))
    end = t + rng.uniform(0.05, 0.6)
    if dump is not None and job.torch >= (2, 3):
        says += dumping(job, rank, t + 0.01, last, done, dump)
        end = t + rng.uniform(30, 61)
    says += [c10(rank, end, who + _DATA, lines[2]), c10(rank, end + 0.001, who + _DOWN, lines[3])]
    if speaks_out(job, rank):
        says += terminated(rng, job, rank, end + 0.01, prefix, message, "checkTimeout", lines[0] + 2)
    elif job.world_size > 64:
        says = says[:2]
    return says, Exit(rank, end + 0.2, -6)


def speaks_out(job: Job, rank: int) -> bool:
    """Whether a waiting rank gets to its C++ stacks: in large jobs the agents end most of them first."""
    return job.world_size <= 16 or (job.local(rank) == 0 and rank < 8 * job.per_node)


def dumping(job: Job, rank: int, t: float, last: int, done: int, first: int) -> list[Say]:
    """The monitor thread of the default group writes the flight recorder's buffer."""
    prefix = pg_prefix(job, Work(0), rank)
    status = f"Last enqueued NCCL work: {last}, last completed NCCL work: {done}."
    base = 1341 + 120 * max(0, job.torch[1] - 4)
    if job.torch < (2, 5):
        heard = "Received a dump signal from this local rank and will start to dump the debug info. "
        texts = [heard + status + _WHY]
    elif rank == first:
        texts = [
            "Received a dump signal due to a collective timeout from this local rank and we will try our best to "
            f"dump the debug info. {status}{_WHY}"
        ]
    else:
        texts = [
            "Observed flight recorder dump signal from another rank via TCPStore.",
            f"Received a dump signal due to a collective timeout from  rank {first} and we will try our best to dump "
            f"the debug info. {status}{_WHY}",
        ]
    texts.append(
        "ProcessGroupNCCL preparing to dump debug info." + (" Include stack trace: 1" if job.torch >= (2, 6) else "")
    )
    return [c10(rank, t + 0.1 * i, prefix + text, base + 60 * i) for i, text in enumerate(texts)]


def monitor_stuck(rng: random.Random, job: Job, rank: int, t: float, evidence: bool = True) -> tuple[list[Say], Exit]:
    """The watchdog thread itself makes no progress (driver call hangs, GIL held)."""
    prefix = pg_prefix(job, Work(0), rank)
    base = 1348 + 90 * max(0, job.torch[1] - 4)
    mark = (0,) if evidence else ()
    hang = (
        "If the heartbeat timeout is too short or there is a hang in the watchdog, please file an issue."
        if job.torch < (2, 5)
        else "This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the "
        "watchdog, and could be triggered by another thread holding the GIL inside a CUDA api (for example, "
        "CudaEventDestroy), or other deadlock-prone behaviors."
    )
    stuck = (
        f"ProcessGroupNCCL's watchdog got stuck for {rng.choice([480, 480, 600, 900])} seconds without making "
        f"progress in monitoring enqueued collectives. {hang}"
    )
    if job.torch < (2, 5):
        stuck = (
            "Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()="
            + str(rng.randint(0, 40))
        )
    end = t + rng.uniform(20, 61)
    says = [c10(rank, t, prefix + stuck, base, evidence=mark)]
    if rng.random() < 0.6:
        says.append(
            c10(rank, t + 0.4, "Could not acquire GIL within 300 ms on exit, possible GIL induced hang", base + 90)
        )
    fatal = (
        "Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang."
        if job.torch >= (2, 5)
        else "[PG 0 Rank 0] ProcessGroupNCCL's watchdog detected a hang."
    )
    says.append(c10(rank, end, prefix + fatal, base + 150, "F"))
    return says, Exit(rank, end + 0.2, -6)


def async_error(
    rng: random.Random,
    job: Job,
    rank: int,
    work: Work,
    t: float,
    result: str,
    last_error: str,
    *,
    evidence: bool = True,
) -> tuple[list[Say], Exit]:
    """NCCL reports an error outside any call: the watchdog aborts the process."""
    lines = since(job.torch, _LINES)
    error = error_text(job, result, last_error)
    prefix = pg_prefix(job, work, rank)
    if job.torch >= (2, 5):
        text = f"{prefix}Collective {work.text(job.torch)} raised the following async exception: NCCL error: {error}"
    else:
        text = f"[Rank {rank}] found async exception when checking for NCCL errors: NCCL error: {error}"
    mark = tuple(range(text.count("\n") + 1)) if evidence else ()
    if evidence and not last_error:
        mark = (0,)
    says = [c10(rank, t, text, lines[0] - 56, evidence=mark)]
    end = t + rng.uniform(0.02, 0.4)
    who = f"[Rank {rank}] " if job.torch >= (2, 3) else ""
    says += [c10(rank, end, who + _DATA, lines[2]), c10(rank, end + 0.001, who + _DOWN, lines[3])]
    why = f"NCCL error: {error}"
    says += terminated(rng, job, rank, end + 0.01, prefix, why, "checkForNCCLErrorsInternal", lines[0] - 50)
    return says, Exit(rank, end + 0.2, -6)


# result -> (ncclGetErrorString, torch's interpretation)
_RESULTS = {
    "cuda": (
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
    ),
    "system": (
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. ",
    ),
    "internal": (
        "internal error - please report this issue to the NCCL developers",
        "ncclInternalError: Internal check failed.",
    ),
    "usage": (
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
    ),
    "remote": (
        "remote process exited or there was a network error",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ),
}


def error_text(job: Job, result: str, last_error: str) -> str:
    """From ncclGetErrorString on; "Last error" exists since torch 1.13."""
    string, meaning = _RESULTS[result]
    if job.torch < (2, 1):
        string = string.split(" (run")[0].split(" - please")[0]
    text = f"{string}, NCCL version {since(job.torch, VERSIONS)}\n{meaning}"
    if job.torch >= (1, 13) and last_error:
        text += f"\nLast error:\n{last_error}"
    return text


def exception(rng: random.Random, job: Job, result: str, last_error: str, file: str = "") -> str:
    """The Python exception of a failed NCCL call (last line of a traceback)."""
    kind = "torch.distributed.DistBackendError" if job.torch >= (2, 0) else "RuntimeError"
    where = path(job) if not file else path(job).replace(PG, file)
    if job.torch < (1, 13):
        where = where.replace("csrc/distributed/c10d", "lib/c10d" if job.torch < (1, 9) else "csrc/distributed/c10d")
    number = random.Random(f"{job.torch}{result}{file}").randint(900, 3800)
    return f"{kind}: NCCL error in: {where}:{number}, {error_text(job, result, last_error)}"


def socket_address(rng: random.Random, job: Job, rank: int) -> str:
    return f"{ip(job, rank)}<{port(rng)}>"


def peer_gone(rng: random.Random, job: Job, peer: int) -> str:
    """NCCL's text when a socket to `peer` is closed."""
    address = socket_address(rng, job, peer)
    if job.torch < (1, 13):
        return f"Net : Connection closed by remote peer {address}"
    host = f"{job.host(peer)}<{port(rng)}>" if rng.random() < 0.4 else address
    return f"socketProgress: Connection closed by remote peer {host}"


def recv_failed(rng: random.Random, job: Job, peer: int, errno: str) -> str:
    address = socket_address(rng, job, peer)
    if job.torch < (2, 1):
        return f"Net : Call to recv from {address} failed : {errno}"
    verb = "send to" if job.torch >= (2, 8) and rng.random() < 0.4 else "recv from"
    return f"socketProgressOpt: Call to {verb} {address} failed : {errno}"


def ib_completion(rng: random.Random, job: Job, peer: int, status: int) -> str:
    """A failed work completion, in the words of the era's NCCL."""
    names = {
        12: "IBV_WC_RETRY_EXC_ERR",
        5: "IBV_WC_WR_FLUSH_ERR",
        13: "IBV_WC_RNR_RETRY_EXC_ERR",
        10: "IBV_WC_REM_ACCESS_ERR",
    }
    vendor = {12: 129, 5: 244, 13: 135, 10: 136}[status]
    address, hca = socket_address(rng, job, peer), rng.choice(["mlx5_0", "mlx5_1", "mlx5_4", "mlx5_bond_0", "bnxt_re2"])
    gids = f"localGid fe80::{hexa(rng, 4)}:{hexa(rng, 4)} remoteGids fe80::{hexa(rng, 4)}:{hexa(rng, 4)}"
    length = rng.choice([0, 32, 524288, 1048576])
    if job.torch < (2, 5):
        tail = " (Send)" if job.torch >= (2, 1) else ""
        tail = f"{tail} {gids}" if tail and rng.random() < 0.5 else tail
        return (
            f"NET/IB : Got completion from peer {address} with error {status}, opcode 0, len {length}, vendor err "
            f"{vendor}{tail}"
        )
    if job.torch < (2, 12):
        tail = f" hca {hca}" if job.torch >= (2, 7) else ""
        return (
            f"NET/IB: Got completion from peer {address} with status={status} opcode=0 len={length} vendor err "
            f"{vendor} (Send) {gids}{tail}"
        )
    return (
        f"NET/IB: Got completion from peer {address} with status={names[status]}({status}) opcode=IBV_WC_SEND(0) "
        f"reqSize={length} vendor_err={vendor} req_type=Send {gids} hca {hca}"
    )


def warn(rank: int, t: float, text: str, origin: str, *, level: str = "WARN", evidence: bool = False) -> Say:
    """NCCL's own line; the framing puts host, pid and device in front."""
    return Say(rank, t, f"NCCL {level} {text}", "nccl", (0,) if evidence else (), origin=origin, stream="stdout")


def aborted(rng: random.Random, those: list[int], t: float) -> list[Exit]:
    return exits(rng, those, t, -6)
