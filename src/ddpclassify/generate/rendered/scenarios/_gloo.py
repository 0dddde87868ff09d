"""What gloo and the store raise, by torch era."""

from __future__ import annotations

import random

from ..script import Job, Say
from ._common import c10d_frames, ip, main_frames, port, raised, stack


def text(rng: random.Random, job: Job, file: str, message: str) -> str:
    """An exception of gloo's TCP transport."""
    root = "/pytorch" if job.torch >= (2, 6) else ".."
    line = random.Random(f"{file}{message[:12]}{job.torch}").randint(70, 760)
    return f"RuntimeError: [{root}/third_party/gloo/gloo/transport/tcp/{file}.cc:{line}] {message}"


def address(rng: random.Random, job: Job, rank: int) -> str:
    return f"[{ip(job, rank)}]:{port(rng)}"


def timed_out(rng: random.Random, job: Job, ms: int, verb: str = "recv") -> str:
    return text(rng, job, "unbound_buffer", f"Timed out waiting {ms}ms for {verb} operation to complete")


def closed_by(rng: random.Random, job: Job, peer: int) -> str:
    """A peer went away; three wordings of the same thing."""
    where = address(rng, job, peer)
    return text(
        rng,
        job,
        "pair",
        rng.choice(
            [
                f"Connection closed by peer {where}",
                f"Read error {where}: Connection reset by peer",
                f"writev {where}: Broken pipe",
            ]
        ),
    )


CALLS = [
    ("all_reduce", "work.wait()", "dist.all_reduce(loss_avg)"),
    ("barrier", "work.wait()", "dist.barrier()"),
    (
        "all_gather_object",
        "all_gather(object_size_list, local_size, group=group)",
        "dist.all_gather_object(results, result)",
    ),
    ("broadcast", "work.wait()", "dist.broadcast(flag, src=0)"),
    ("all_gather", "work.wait()", "dist.all_gather(outputs, logits)"),
]


def call_frames(job: Job, function: str, inner: str, source: str) -> list[str]:
    return [*main_frames(job), f"{{dir}}/{job.script}|sync|{source}", *c10d_frames(job, function, inner)]


def failed(
    rng: random.Random, job: Job, rank: int, t: float, call: tuple[str, str, str], error: str, *evidence: int
) -> Say:
    return raised(job, rank, t, call_frames(job, *call), error, *evidence)


def store_error(job: Job, ms: int, key: str) -> str:
    """A wait on a key that nobody sets."""
    if job.torch >= (2, 4):
        kind = "torch.distributed.DistStoreError"
        return f"{kind}: wait timeout after {ms}ms, keys: /default_pg/0//{key}"
    return "RuntimeError: Socket Timeout" if job.torch < (2, 2) else "torch.distributed.DistStoreError: Socket Timeout"


def recv_value(rng: random.Random, job: Job, rank: int, t: float, why: str, evidence: bool = False) -> Say:
    """A client's warning that the store does not answer (stack left out as in short logs)."""
    at, to = ip(job, rank), ip(job, 0)
    message = (
        f"[c10d] recvValue failed on SocketImpl(fd={rng.randint(3, 90)}, addr=[{job.host(rank)}]:{port(rng)}, "
        f"remote=[{rng.choice([job.host(0), to, at])}]:{rng.choice([29500, 29400, 12355])}): {why}"
    )
    return Say(rank, t, message, "c10", (0,) if evidence else (), "W", f"TCPStore.cpp:{rng.choice([106, 115, 125])}")


def trace_lines(job: Job, source: str) -> list[str]:
    """Flight-recorder stack: newest first, `#0 function from file:line`."""
    lines = stack(
        job, [*main_frames(job), f"{{dir}}/{job.script}|sync|{source}", *c10d_frames(job, "all_reduce", "work.wait()")]
    )
    found = []
    for line in lines:
        if line.startswith('  File "'):
            file, number, name = line[8:].replace('", line ', "|").replace(", in ", "|").split("|")
            found.append(f"{name} from {file}:{number}")
    return [f"#{i} {entry}" for i, entry in enumerate(reversed(found))]
