"""The group never forms: the port, the store, the master or some workers are missing."""

from __future__ import annotations

import random

from ..script import AGENT, Exit, Job, Say, Script
from ._common import (
    HEARD,
    NODES,
    SEVERAL,
    Shelf,
    a_rank,
    draw_time,
    early,
    exits,
    ip,
    main_frames,
    node_ranks,
    others,
    raised,
    traceback,
)
from ._stuck import Story

SHELF = Shelf("rendezvous_error")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs


INIT = [
    "{site}/torch/distributed/distributed_c10d.py|init_process_group|store, rank, world_size = "
    "next(rendezvous_iterator)",
    "{site}/torch/distributed/rendezvous.py|_env_rendezvous_handler|store = _create_c10d_store(master_addr, "
    "master_port, rank, "
    "world_size, timeout)",
    "{site}/torch/distributed/rendezvous.py|_create_c10d_store|return TCPStore(",
]
AGENT_RDZV = [
    "{site}/torch/distributed/run.py|<module>|main()",
    "{site}/torch/distributed/run.py|run|elastic_launch(",
    "{site}/torch/distributed/launcher/api.py|launch_agent|result = agent.run()",
    "{site}/torch/distributed/elastic/agent/server/api.py|_rendezvous|rdzv_info = spec.rdzv_handler.next_rendezvous()",
]


def init_frames(job: Job) -> list[str]:
    return [
        *main_frames(job)[:1],
        f"{{dir}}/{job.script}|setup|dist.init_process_group(backend='{job.backend}')",
        *INIT,
    ]


def port_of(job: Job) -> int:
    return random.Random(f"port{job.pids}").choice([29500, 29501, 12355, 23456, 6000])


def clients(rng: random.Random, job: Job) -> Script:
    """Rank 0's store waits for clients; one node (or one rank) never comes."""
    missing = node_ranks(job, len(job.hosts) - 1) if len(job.hosts) > 1 else [rng.randrange(1, job.world_size)]
    seconds = rng.choice([300, 600, 900, 1800])
    start = 20.0 + seconds
    have, kind = job.world_size - len(missing), "torch.distributed.DistStoreError"
    present = others(job, missing)
    joined = f"Timed out after {seconds + 1} seconds waiting for clients. {have}/{job.world_size} clients joined."
    says = [raised(job, rank, start + rng.uniform(0, 2), init_frames(job), f"{kind}: {joined}") for rank in present]
    return early(
        "rendezvous_error",
        "missing_workers",
        job,
        missing,
        says,
        exits(rng, present, start + 2.5, 1),
        start,
        silent=tuple(missing),
        peers=False,
    )


def barrier(rng: random.Random, job: Job) -> Script:
    """The store based barrier at init: k of n ranks."""
    node = rng.randrange(len(job.hosts))
    missing = node_ranks(job, node) if len(job.hosts) > 1 else [a_rank(rng, job)]
    minutes, present = rng.choice([10, 30]), others(job, missing)
    start = 20.0 + 60 * minutes
    frames = [
        *init_frames(job)[:2],
        "{site}/torch/distributed/distributed_c10d.py|init_process_group|_store_based_barrier(rank, store, timeout)",
    ]
    says = []
    for rank in present:
        on = f"on rank: {rank}, for" if job.torch < (2, 1) else f"on rank {rank}, for"
        text = (
            f"Timed out initializing process group in store based barrier {on} key: store_based_barrier_key:1 "
            f"(world_size={job.world_size}, num_workers_joined={len(present)}, timeout=0:{minutes}:00)"
        )
        kind = "torch.distributed.DistStoreError" if job.torch >= (2, 2) else "RuntimeError"
        says.append(raised(job, rank, start + rng.uniform(0, 5), frames, f"{kind}: {text}"))
    return early(
        "rendezvous_error",
        "missing_workers",
        job,
        missing,
        says,
        exits(rng, present, start + 6, 1),
        start,
        silent=tuple(missing),
        peers=False,
    )


def connect(errno: str, number: int, reason: str) -> Story:
    """Clients can't reach the master: it started late, elsewhere, or not at all."""

    def story(rng: random.Random, job: Job) -> Script:
        node = rng.randrange(1, len(job.hosts))
        those = node_ranks(job, node)
        host, at = rng.choice([job.hosts[0], ip(job, 0)]), port_of(job)
        seconds = rng.choice([300, 600, 900, 1800])
        start = 15.0 + seconds
        says = []
        kind = (
            "torch.distributed.DistNetworkError"
            if job.torch >= (2, 2)
            else "TimeoutError"
            if job.torch >= (1, 11)
            else "RuntimeError"
        )
        unit = f"{seconds}s" if job.torch < (2, 2) else f"{seconds * 1000}ms"
        text = f"The client socket has timed out after {unit} while trying to connect to ({host}, {at})."
        if job.torch < (1, 10):
            text = "connect() timed out." if number == 110 else errno
        for rank in those:
            if job.torch >= (1, 10):
                if number == -2:
                    warn = (
                        f"[c10d] The IPv6 network addresses of ({host}, {at}) cannot be retrieved (gai error: -2 - "
                        f"{errno})."
                    )
                else:
                    warn = (
                        f"[c10d] The client socket has failed to connect to [{host}]:{at} (errno: {number} - {errno})."
                    )
                says += [
                    Say(rank, 15 + 3.1 * i + rng.uniform(0, 1), warn, "c10", (0,), "W", "socket.cpp:663")
                    for i in range(rng.randint(1, 5))
                ]
            says.append(raised(job, rank, start + rng.uniform(0, 1), init_frames(job), f"{kind}: {text}"))
        return early(
            "rendezvous_error",
            reason,
            job,
            those,
            says,
            exits(rng, those, start + 1.5, 1),
            start,
            no_culprit_mark="unknown",
            peers=False,
        )

    return story


def in_use(by: str) -> Story:
    """The master port is taken on node 0."""

    def story(rng: random.Random, job: Job) -> Script:
        at, start = port_of(job), draw_time(rng, 4, 12)
        uv = job.torch >= (2, 4)
        kind = "torch.distributed.DistNetworkError" if job.torch >= (2, 2) else "RuntimeError"
        if job.torch < (1, 11):
            text = f"{kind}: Address already in use"
        elif uv and rng.random() < 0.8:
            text = (
                f"{kind}: The server socket has failed to listen on any local network address. port: {at}, useIpv6: "
                f"{rng.randint(0, 1)}, code: -98, name: EADDRINUSE, message: address already in use"
            )
        else:
            text = (
                f"{kind}: The server socket has failed to listen on any local network address. The server socket has "
                f"failed to bind to [::]:{at} (errno: 98 - Address already in use). The server socket has failed to "
                f"bind to 0.0.0.0:{at} (errno: 98 - Address already in use)."
            )
        says = []
        if job.torch >= (1, 11) and not uv:
            for i, where in enumerate((f"[::]:{at}", f"0.0.0.0:{at}")):
                says.append(
                    Say(
                        0 if by == "rank0" else AGENT,
                        start - 0.1 + 0.01 * i,
                        f"[c10d] The server socket has failed to bind to {where} (errno: 98 - Address already in use).",
                        "c10",
                        (0,),
                        "W",
                        "socket.cpp:426",
                    )
                )
        if by == "rank0":
            says.append(raised(job, 0, start, init_frames(job), text))
            return early(
                "rendezvous_error",
                "port_in_use",
                job,
                [0],
                says,
                [Exit(0, start + 0.5, 1)],
                start,
                peers=False,
                no_culprit_mark="unknown",
            )
        frames = [
            *AGENT_RDZV,
            "{site}/torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py|next_rendezvous|self._store = "
            "TCPStore(  # type: ignore[call-arg]",
        ]
        says.append(raised(job, AGENT, start, frames, text))
        return early("rendezvous_error", "port_in_use", job, "launcher", says, [], start, peers=False)

    return story


def elastic(kind: str) -> Story:
    """The agents themselves don't meet."""

    def story(rng: random.Random, job: Job) -> Script:
        start = draw_time(rng, 30, 900)
        base = "torch.distributed.elastic.rendezvous.api."
        text = {
            "timeout": f"{base}RendezvousTimeoutError",
            "closed": f"{base}RendezvousClosedError",
            "connection": f"{base}RendezvousConnectionError: The connection to the C10d store has failed. See inner "
            "exception for details.",
        }[kind]
        says = []
        if kind == "connection":
            inner = traceback(
                job,
                [
                    "{site}/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py|_create_tcp_store|store = "
                    "TCPStore("
                ],
                f"{'torch.distributed.DistNetworkError' if job.torch >= (2, 2) else 'TimeoutError'}: The client "
                "socket has timed out after "
                f"{60 if job.torch < (2, 2) else 60000}{'s' if job.torch < (2, 2) else 'ms'} while trying to connect "
                f"to ({job.hosts[0]}, {port_of(job)}).",
            )
            outer = traceback(job, AGENT_RDZV, text)
            link = "\n\nThe above exception was the direct cause of the following exception:\n\n"
            says.append(Say(AGENT, start, inner + link + outer, "traceback", (inner.count("\n"),)))
        else:
            says.append(raised(job, AGENT, start, AGENT_RDZV, text))
        reason = {"timeout": "rendezvous_timeout", "closed": "rendezvous_closed", "connection": "store_unreachable"}[
            kind
        ]
        return early("rendezvous_error", reason, job, "launcher", says, [], start, peers=False)

    return story


def beats(rng: random.Random, job: Job) -> Script:
    """The store's host goes during rendezvous; agents can't send their keep-alives, then give up."""
    start = draw_time(rng, 30, 300)
    says = [
        Say(
            AGENT,
            start + 3.0 * i,
            f"The node '{host}_{rng.randint(90, 9000)}_0' has failed to send a keep-alive heartbeat to the rendezvous "
            f"'{rng.choice(['none', 'train'])}' due to an error of type RendezvousConnectionError.",
            node=i,
        )
        for i, host in enumerate(job.hosts[1:], 1)
    ]
    text = (
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has "
        "failed. See inner exception for details."
    )
    say = raised(job, AGENT, start + 9, AGENT_RDZV, text)
    says.append(say)
    return early("rendezvous_error", "store_unreachable", job, "launcher", says, [], start, peers=False)


def libuv(rng: random.Random, job: Job) -> Script:
    """Server and clients of different torch releases: the store's handshake fails."""
    those, start, at = node_ranks(job, rng.randrange(1, len(job.hosts))), draw_time(rng, 20, 300), port_of(job)
    says, kind = [], "torch.distributed.DistNetworkError"
    for rank in those:
        text = (
            f"TCP client failed to connect/validate to host {job.hosts[0]}:{at} - timed out (try=5, timeout=60000ms): "
            "Connection reset by peer"
        )
        retry = Say(
            rank,
            start - 5,
            f"[c10d] TCP client failed to connect/validate to host {job.hosts[0]}:{at} - retrying (try=1, "
            "timeout=60000ms, delay=1029ms): Connection reset by peer",
            "c10",
            (0,),
            "W",
            "TCPStore.cpp:347",
        )
        says += [retry, raised(job, rank, start + rng.uniform(0, 1), init_frames(job), f"{kind}: {text}")]
    return early(
        "rendezvous_error",
        "store_unreachable",
        job,
        those,
        says,
        exits(rng, those, start + 1.5, 1),
        start,
        no_culprit_mark="unknown",
        peers=False,
    )


RUN = ["torchrun", "accelerate"]
BARE = ["srun", "mpirun", "legacy-launch", "mp.spawn", "shell", "lightning", "k8s"]
SHELF.put("rdzv-clients", clients, SEVERAL, torch_min=["2.2"], launcher=[name for name in BARE if name != "mp.spawn"])
SHELF.put("rdzv-store-barrier", barrier, SEVERAL, HEARD, torch_max=["2.3"])
SHELF.put("rdzv-master-refused", connect("Connection refused", 111, "store_unreachable"), NODES, launcher=BARE)
SHELF.put("rdzv-master-timeout", connect("Connection timed out", 110, "store_unreachable"), NODES, launcher=BARE)
SHELF.put("rdzv-master-no-route", connect("No route to host", 113, "store_unreachable"), NODES, launcher=BARE)
SHELF.put("rdzv-host-unknown", connect("Name or service not known", -2, "host_unresolved"), NODES, launcher=BARE)
SHELF.put("rdzv-port-rank0", in_use("rank0"), launcher=BARE)
SHELF.put("rdzv-port-agent", in_use("agent"), launcher=RUN, torch_min=["1.10"])
for word in ("timeout", "closed", "connection"):
    SHELF.put(f"rdzv-elastic-{word}", elastic(word), NODES, launcher=RUN, torch_min=["1.10"])
SHELF.put("rdzv-keepalive", beats, NODES, launcher=RUN, torch_min=["1.11"])
SHELF.put("rdzv-validate", libuv, NODES, torch_min=["2.5"], launcher=BARE)
