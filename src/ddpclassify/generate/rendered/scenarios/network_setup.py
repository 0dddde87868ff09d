"""No way to a peer: interfaces, routes, gloo, MPI, the store, a port that goes down."""

from __future__ import annotations

import random

from ..script import Exit, Job, Say, Script
from . import _gloo, _nccl, _system
from ._common import (
    NCCL,
    NODES,
    SEVERAL,
    Shelf,
    a_rank,
    draw_time,
    exits,
    hexa,
    ip,
    main_frames,
    node_ranks,
    others,
    port,
    raised,
    ranks,
    script,
)
from ._stuck import Story, draw_work

SHELF = Shelf("network_error")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
CATEGORY = SHELF.category
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


def connect_text(rng: random.Random, job: Job, address: str, errno: str) -> str:
    if job.torch < (1, 13):
        return f"Net : Connect to {address} failed : {errno}"
    if job.torch < (2, 8):
        retries = "" if job.torch < (2, 2) or rng.random() < 0.5 else f" exceeded retries ({rng.choice([20000, 100])})"
        return (
            f"socketStartConnect: Connect to {address} failed : {errno}"
            if not retries
            else (f"socketStartConnect: Connect to {address}{retries}")
        )
    return f"socketPollConnect: connect to {address} returned {errno}, exceeded error retry count after 35 attempts"


def connecting(errno: str, reason: str, bridge: bool) -> Story:
    """The first collective: the ranks of one node can't reach the others' address."""

    def story(rng: random.Random, job: Job) -> Script:
        node = rng.randrange(1, len(job.hosts))
        those = node_ranks(job, node)
        start = draw_time(rng, 20, 90)
        says: list[Say] = []
        net, nic = rng.choice(
            [("172.17.0.1", "docker0"), ("169.254.3.1", "virbr0"), ("192.168.122.1", "virbr0"), ("10.88.0.1", "cni0")]
        )
        if bridge:
            says += [
                _nccl.warn(rank, start - 4 + 0.01 * rank, f"Bootstrap : Using {nic}:{net}<0>", "", level="INFO")
                for rank in ranks(job)
            ]
        for rank in those:
            address = f"{net if bridge else ip(job, 0)}<{port(rng)}>"
            last = connect_text(rng, job, address, errno)
            t = start + rng.uniform(0, 1)
            if job.torch < (1, 13) or rng.random() < 0.5:
                says.append(_nccl.warn(rank, t - 0.1, last, origin(rng, job, "socket"), evidence=True))
            error = _nccl.exception(rng, job, "system", last)
            frames = _gloo.call_frames(job, "barrier", "work = default_pg.barrier(opts=opts)", "dist.barrier()")
            says.append(raised(job, rank, t, frames, error, *range(error.count("\n") + 1)))
        return script(
            CATEGORY,
            reason,
            job,
            those,
            says,
            start=start,
            fails_at=start,
            exits=exits(rng, those, start + 1.2, 1),
            no_culprit_mark="unknown",
        )

    return story


def no_interface(everywhere: bool) -> Story:
    def story(rng: random.Random, job: Job) -> Script:
        those = list(ranks(job)) if everywhere else node_ranks(job, rng.randrange(len(job.hosts)))
        start = draw_time(rng, 15, 60)
        last = rng.choice(
            ["Bootstrap : no socket interface found", "NET/Socket : no interface found"]
            if job.torch < (2, 7)
            else ["Bootstrap: no socket interface found", "NET/Socket : no interface found"]
        )
        name = rng.choice(["eth0", "ens5", "ib0", "bond0", "eno1"])
        says = [
            _nccl.warn(rank, start - 0.2, f"NCCL_SOCKET_IFNAME set by environment to {name}", "", level="INFO")
            for rank in those
        ]
        for rank in those:
            t = start + rng.uniform(0, 0.5)
            error = _nccl.exception(rng, job, "internal" if job.torch < (2, 1) else "system", last)
            says.append(_nccl.warn(rank, t - 0.1, last, origin(rng, job, "boot"), evidence=True))
            frames = _gloo.call_frames(
                job, "broadcast", "work = default_pg.broadcast([tensor], opts)", "dist.broadcast(x, 0)"
            )
            says.append(raised(job, rank, t, frames, error, *([0, error.count("\n")] if job.torch >= (1, 13) else [0])))
        return script(
            CATEGORY,
            "interface",
            job,
            those,
            says,
            start=start,
            fails_at=start,
            exits=exits(rng, those, start + 1, 1),
            no_culprit_mark="unknown",
        )

    return story


def gloo_reset(kind: str) -> Story:
    """A TCP pair breaks between two live processes; each end reports the other."""

    def story(rng: random.Random, job: Job) -> Script:
        a, b = facing(rng, job)
        start = draw_time(rng)
        says, ends = [], []
        for rank, peer in ((a, b), (b, a)):
            where = _gloo.address(rng, job, peer)
            message = {
                "reset": f"Read error {where}: Connection reset by peer",
                "timeout": f"Read error {where}: Connection timed out",
                "route": f"writev {where}: No route to host",
            }[kind]
            t = start + rng.uniform(0, 0.05)
            says.append(_gloo.failed(rng, job, rank, t, _gloo.CALLS[0], _gloo.text(rng, job, "pair", message)))
            ends.append(Exit(rank, t + 0.6, 1))
        return script(
            CATEGORY,
            "no_route" if kind == "route" else "connection_lost",
            job,
            [a, b],
            says,
            exits=ends,
            fails_at=start - 1,
            no_culprit_mark="unknown",
        )

    return story


def gloo_mesh(rng: random.Random, job: Job) -> Script:
    """Gloo's full mesh can't form: one node announces an address that others can't reach."""
    node = rng.randrange(1, len(job.hosts))
    those, start = node_ranks(job, node), draw_time(rng, 20, 100)
    says = []
    frames = [
        *main_frames(job)[:2],
        f"{{dir}}/{job.script}|setup|dist.init_process_group('gloo')",
        "{site}/torch/distributed/distributed_c10d.py|_new_process_group_helper|backend_class = ProcessGroupGloo("
        "backend_prefix_store, group_rank, group_size, timeout=timeout)",
    ]
    for rank in those:
        remote = f"[{rng.choice(['127.0.1.1', '172.17.0.1', ip(job, 0)])}]:{port(rng)}"
        if job.torch >= (2, 1):
            text = (
                f"Gloo connectFullMesh failed with [{'/pytorch' if job.torch >= (2, 6) else '..'}/third_party/gloo/"
                "gloo/transport/tcp/pair.cc:144] SO_ERROR: "
                f"{rng.choice(['No route to host', 'Network is unreachable'])}, remote={remote}"
            )
            error = f"RuntimeError: {text}"
        else:
            error = _gloo.text(
                rng, job, "pair", f"connect {remote}: {rng.choice(['No route to host', 'Network is unreachable'])}"
            )
        says.append(raised(job, rank, start + rng.uniform(0, 0.5), frames, error))
    return script(
        CATEGORY,
        "no_route",
        job,
        those,
        says,
        start=start,
        fails_at=start,
        in_group=False,
        exits=exits(rng, those, start + 1, 1),
        no_culprit_mark="unknown",
    )


def link_down(rng: random.Random, job: Job) -> Script:
    """The kernel sees the port go; the node's ranks get retries exceeded."""
    node, start, style = rng.randrange(len(job.hosts)), draw_time(rng), rng.randint(0, 3)
    those = node_ranks(job, node)
    work = draw_work(rng, job, "grad")
    texts = rng.choice(
        [
            [f"mlx5_core 0000:{rng.randint(16, 240):02x}:00.0 {rng.choice(['ib0', 'ens1f0np0', 'rdma0'])}: Link down"],
            [
                "bond0: (slave ens1f1): link status definitely down, disabling slave",
                "bond0: now running without any active interface!",
            ],
            [
                f"mlx5_core 0000:{rng.randint(16, 240):02x}:00.0: Port module event[error]: module 0, Cable error, "
                "Power budget exceeded"
            ],
        ]
    )
    says = [_system.kernel_says(job, start, node, texts, style, 0)]
    ends = []
    for rank in those:
        last = _nccl.ib_completion(rng, job, rng.choice(others(job, those)), 12)
        said, end = _nccl.async_error(rng, job, rank, work, start + rng.uniform(10, 60), "remote", last)
        says += said
        ends.append(end)
    return script(
        CATEGORY,
        "infiniband" if "mlx5" in texts[0] else "connection_lost",
        job,
        those,
        says,
        exits=ends,
        fails_at=start,
    )


def store_lost(rng: random.Random, job: Job) -> Script:
    """A node's clients lose the store while rank 0 lives on."""
    node, start = rng.randrange(1, len(job.hosts)), draw_time(rng)
    those = node_ranks(job, node)
    why = rng.choice(["Connection timed out", "No route to host", "Connection reset by peer"])
    says, kind = [], "torch.distributed.DistNetworkError" if job.torch >= (2, 2) else "RuntimeError"
    for rank in those:
        t = start + rng.uniform(0, 1)
        if job.torch >= (2, 5):
            says.append(_gloo.recv_value(rng, job, rank, t - 0.1, why, evidence=True))
        frames = [*main_frames(job), f"{{dir}}/{job.script}|step_sync|store.set(key, value)"]
        says.append(raised(job, rank, t, frames, f"{kind}: {why}"))
    return script(
        CATEGORY,
        "connection_lost",
        job,
        those,
        says,
        exits=exits(rng, those, start + 1.5, 1),
        fails_at=start - 1,
        no_culprit_mark="unknown",
    )


def mpi_btl(kind: str) -> Story:
    """Open MPI's own transport; lines carry host, job and rank."""

    def story(rng: random.Random, job: Job) -> Script:
        a, b = facing(rng, job)
        start, family = draw_time(rng), rng.randint(1000, 65000)
        head = f"[{job.host(a)}][[{family},1],{a}]"
        text = {
            "reset": f"{head}[btl_tcp_frag.c:{rng.choice([135, 215, 241])}:mca_btl_tcp_frag_recv] "
            "mca_btl_tcp_frag_recv: readv failed: Connection reset by peer (104)",
            "route": f"{head}[btl_tcp_endpoint.c:{rng.choice([626, 655, 800])}:"
            f"mca_btl_tcp_endpoint_complete_connect] connect() to {ip(job, b)} failed: No route to host (113)",
            "openib": f"[{head[1:-1].replace('][', ',')}][btl_openib_component.c:3645:handle_wc] from "
            f"{job.host(a)} to: {job.host(b)} error polling LP CQ with status RETRY EXCEEDED ERROR status number 12 "
            f"for wr_id {hexa(rng, 8)} opcode 0  vendor error 129 qp_idx 0",
        }[kind]
        reason = {"reset": "connection_lost", "route": "no_route", "openib": "infiniband"}[kind]
        return script(
            CATEGORY,
            reason,
            job,
            [a],
            [Say(a, start, text, evidence=(0,), names=(a,))],
            exits=[Exit(a, start + 1, 1)],
            fails_at=start - 0.5,
        )

    return story


def proxy_connect(rng: random.Random, job: Job) -> Script:
    """The proxy of a rank can't connect: NCCL calls it an internal error."""
    a, b = facing(rng, job)
    start = draw_time(rng, 20, 200)
    first = connect_text(
        rng, job, f"{ip(job, b)}<{port(rng)}>", rng.choice(["Connection timed out", "Connection refused"])
    )
    last = f"Proxy Call to rank {b} failed (Connect)"
    error = _nccl.exception(rng, job, "internal", last)
    says = [
        _nccl.warn(a, start - 0.2, first, origin(rng, job, "socket"), evidence=True),
        _nccl.warn(a, start - 0.1, last, f"proxy.cc:{rng.choice([1026, 1153, 1471])}"),
        raised(
            job,
            a,
            start,
            _gloo.call_frames(job, *CALL),
            error,
            *([0, error.count(chr(10))] if job.torch >= (1, 13) else [0]),
        ),
    ]
    return script(
        CATEGORY,
        "connection_lost",
        job,
        [a],
        says,
        exits=[Exit(a, start + 1, 1)],
        fails_at=start,
        no_culprit_mark="unknown",
    )


SHELF.put("network-docker-bridge", connecting("Connection refused", "interface", True), NCCL, NODES)
SHELF.put("network-docker-bridge-timeout", connecting("Connection timed out", "interface", True), NCCL, NODES)
SHELF.put("network-no-route", connecting("No route to host", "no_route", False), NCCL, NODES)
SHELF.put("network-no-interface", no_interface(True), NCCL, SEVERAL)
SHELF.put("network-no-interface-node", no_interface(False), NCCL, NODES)
for word in ("reset", "timeout", "route"):
    SHELF.put(f"network-gloo-{word}", gloo_reset(word), SEVERAL, backend=["gloo"])
SHELF.put("network-gloo-mesh", gloo_mesh, NODES, backend=["gloo"])
SHELF.put("network-link-down", link_down, NCCL, NODES, torch_min=["1.13"])
SHELF.put("network-store-lost", store_lost, NODES)
for word in ("reset", "route", "openib"):
    SHELF.put(f"network-mpi-{word}", mpi_btl(word), NODES, launcher=["mpirun"])
SHELF.put("network-proxy-connect", proxy_connect, NCCL, NODES, torch_min=["1.12"])
