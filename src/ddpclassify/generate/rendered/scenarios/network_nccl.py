"""A connection of a running NCCL job breaks, with no earlier death of the peer in the log."""

from __future__ import annotations

import random
from collections.abc import Callable

from ..script import Exit, Job, Say, Script
from . import _gloo, _nccl
from ._common import (
    NCCL,
    NODES,
    SEVERAL,
    Shelf,
    a_rank,
    draw_time,
    hexa,
    others,
    raised,
    ranks,
    script,
)
from ._nccl import Work
from ._stuck import Story, draw_work

SHELF = Shelf("network_error")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
CATEGORY = SHELF.category
Text = Callable[[random.Random, Job, int], str]
"""NCCL's "Last error", told by a rank about its peer."""

FILES = {
    "socket": "misc/socket.cc:{}",
    "ib": "transport/net_ib.cc:{}",
    "ofi": "nccl_ofi_net.c:{}",
    "boot": "bootstrap.cc:{}",
}
CALL = ("all_reduce", "work = default_pg.allreduce([tensor], opts)", "dist.all_reduce(x)")


def origin(rng: random.Random, job: Job, file: str) -> str:
    if file == "socket" and job.torch < (1, 13):
        return f"include/socket.h:{rng.choice([414, 409, 445])}"
    return FILES[file].format(rng.randint(60, 1400))


def facing(rng: random.Random, job: Job) -> tuple[int, int]:
    """Two ranks that talk over the network: on different nodes where there are several."""
    a = a_rank(rng, job)
    far = [rank for rank in ranks(job) if rank // job.per_node != a // job.per_node] or others(job, [a])
    return a, rng.choice(far)


def at_work(result: str, reason: str, text: Text, file: str, *, both: bool = False, raises: bool = False) -> Story:
    """The rank(s) at the link report first; where the link is in doubt, both ends do."""

    def story(rng: random.Random, job: Job) -> Script:
        a, b = facing(rng, job)
        culprits = [a, b] if both else [a]
        start = draw_time(rng)
        work = draw_work(rng, job, "grad")
        says: list[Say] = []
        ends: list[Exit] = []
        shown = rng.random() < 0.6
        where = origin(rng, job, file)
        for i, (rank, peer) in enumerate([(a, b), (b, a)][: len(culprits)]):
            t = start + rng.uniform(0, 0.3) * i
            last = text(rng, job, peer)
            if shown or job.torch < (1, 13):
                says.append(_nccl.warn(rank, t - 0.05, last, where, evidence=True))
                says += [
                    _nccl.warn(rank, t - 0.04 + 0.001 * j, f"{at}:{rng.randint(40, 900)} -> {code}", "", level="INFO")
                    for j, at in enumerate(["transport/net.cc", "proxy.cc"])
                    for code in [6 if result == "remote" else 2]
                ]
            if raises:
                error = _nccl.exception(rng, job, result, last)
                mark = range(error.count("\n") + 1)
                says.append(raised(job, rank, t, _gloo.call_frames(job, *CALL), error, *mark))
                ends.append(Exit(rank, t + 0.5, 1))
            else:
                said, end = _nccl.async_error(rng, job, rank, work, t, result, last)
                says += said
                ends.append(end)
        return script(
            CATEGORY,
            reason,
            job,
            culprits,
            says,
            exits=ends,
            fails_at=start - 1,
            no_culprit_mark="unknown" if raises else "",
        )

    return story


def ofi(rng: random.Random, job: Job, peer: int) -> str:
    code, text = rng.choice(
        [
            (110, "Connection timed out"),
            (113, "Unresponsive receiver (reachable by EFA device but handshake failed or timed out)"),
            (107, "Transport endpoint is not connected"),
            (5, "Input/output error"),
        ]
    )
    return (
        f"NET/OFI Request 0x7f{hexa(rng, 10)} completed with error. RC: {code}. Error: {rng.randint(1, 14)} ({text}). "
        f"Completed length: 0, Request: {{ dev: {rng.randint(0, 3)}, size: 0, state: CREATED, type: SEND }}"
    )


def async_event(rng: random.Random, job: Job, peer: int) -> str:
    event = rng.choice(["port error", "local catastrophic error", "GID table change", "device fatal"])
    if job.torch >= (2, 7):
        return f"NET/IB : mlx5_{rng.randint(0, 7)}:1 Got async error event: {event}"
    return f"NET/IB : {f'mlx5_{rng.randint(0, 7)}:1 ' if job.torch >= (2, 5) else ''}Got async event : {event}"


def status(code: int) -> Text:
    return lambda rng, job, peer: _nccl.ib_completion(rng, job, peer, code)


def verbs(call: str, text: str, number: int) -> Text:
    def told(rng: random.Random, job: Job, peer: int) -> str:
        tail = f" errno {number}" if job.torch >= (2, 3) else ""
        return f"Call to {call} failed with error {text}{tail}"

    return told


def reset(errno: str) -> Text:
    return lambda rng, job, peer: _nccl.recv_failed(rng, job, peer, errno)


def all_remote(rng: random.Random, job: Job) -> Script:
    """Every rank sees the fabric go at once, none of them died before."""
    start = draw_time(rng)
    work: Work = draw_work(rng, job, "gather")
    says: list[Say] = []
    ends = []
    for rank in ranks(job):
        last = _nccl.ib_completion(rng, job, rng.choice(others(job, [rank])), 12)
        said, end = _nccl.async_error(rng, job, rank, work, start + rng.uniform(0, 3), "remote", last)
        says += said
        ends.append(end)
    return script(CATEGORY, "fabric", job, "all", says, exits=ends, fails_at=start - 10, peers=False)


SHELF.put(
    "network-socket-reset",
    at_work("system", "connection_lost", reset("Connection reset by peer"), "socket", raises=True),
    NCCL,
    SEVERAL,
)
SHELF.put(
    "network-socket-reset-async",
    at_work("system", "connection_lost", reset("Connection reset by peer"), "socket"),
    NCCL,
    SEVERAL,
)
SHELF.put(
    "network-socket-timeout",
    at_work("system", "connection_lost", reset("Connection timed out"), "socket", both=True),
    NCCL,
    SEVERAL,
)
SHELF.put(
    "network-recv-no-route",
    at_work("system", "no_route", reset("No route to host"), "socket", raises=True),
    NCCL,
    NODES,
)
SHELF.put(
    "network-remote-both",
    at_work("remote", "remote_error", _nccl.peer_gone, "socket", both=True),
    NCCL,
    NODES,
    torch_min=["1.13"],
)
SHELF.put(
    "network-remote-raised",
    at_work("remote", "remote_error", _nccl.peer_gone, "socket", raises=True),
    NCCL,
    NODES,
    torch_min=["1.13"],
)
SHELF.put("network-ib-retry", at_work("remote", "infiniband", status(12), "ib"), NCCL, NODES, torch_min=["1.13"])
SHELF.put(
    "network-ib-retry-both",
    at_work("remote", "infiniband", status(12), "ib", both=True),
    NCCL,
    NODES,
    torch_min=["1.13"],
)
SHELF.put(
    "network-ib-retry-old",
    at_work("system", "infiniband", status(12), "ib", raises=True),
    NCCL,
    NODES,
    torch_max=["1.12"],
)
SHELF.put("network-ib-rnr", at_work("remote", "infiniband", status(13), "ib"), NCCL, NODES, torch_min=["1.13"])
SHELF.put("network-ib-access", at_work("remote", "infiniband", status(10), "ib"), NCCL, NODES, torch_min=["1.13"])
SHELF.put("network-ib-event", at_work("system", "infiniband", async_event, "ib"), NCCL, NODES)
SHELF.put(
    "network-ib-modify-qp",
    at_work("system", "infiniband", verbs("ibv_modify_qp", "Connection timed out", 110), "ib", raises=True),
    NCCL,
    NODES,
)
SHELF.put(
    "network-roce-unreachable",
    at_work("system", "fabric", verbs("ibv_modify_qp", "Network is unreachable", 101), "ib", raises=True),
    NCCL,
    NODES,
)
SHELF.put(
    "network-gdr-register",
    at_work("system", "infiniband", verbs("ibv_reg_mr_iova2", "Bad address", 14), "ib", raises=True),
    NCCL,
    NODES,
)
SHELF.put("network-efa", at_work("remote", "fabric", ofi, "ofi"), NCCL, NODES, torch_min=["1.13"])
SHELF.put("network-efa-old", at_work("system", "fabric", ofi, "ofi", both=True), NCCL, NODES, torch_max=["2.2"])
SHELF.put("network-fabric-all", all_remote, NCCL, NODES, torch_min=["1.13"])
