"""A whole node, pod or agent vanishes without an error of its own."""

from __future__ import annotations

import random
from collections.abc import Callable

from ..script import AGENT, Exit, Job, Say, Script
from . import _nccl, _system
from ._common import (
    NODES,
    Shelf,
    draw_time,
    exits,
    hexa,
    ip,
    main_frames,
    node_ranks,
    others,
    raised,
    ranks,
    script,
    system,
    world_line,
)
from ._stuck import draw_work

SHELF = Shelf("node_failure")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
CATEGORY = SHELF.category

Text = Callable[[random.Random, Job, int, float], list[tuple[str, bool]]]
"""Lines about a lost node: text, and whether it states the loss."""


def echoes(rng: random.Random, job: Job, gone: list[int], t: float) -> tuple[list[Say], list[Exit]]:
    """Some survivors lose their connections; the lines only echo the loss."""
    says: list[Say] = []
    ends: list[Exit] = []
    if job.backend != "nccl" or job.torch < (1, 13):
        return says, ends
    left = others(job, gone)
    work = draw_work(rng, job, "grad")
    for rank in rng.sample(left, min(len(left), rng.randint(0, 4))):
        last = _nccl.peer_gone(rng, job, rng.choice(gone))
        said, end = _nccl.async_error(rng, job, rank, work, t + rng.uniform(1, 20), "remote", last, evidence=False)
        says += said
        ends.append(end)
    return says, ends


def told(reason: str, text: Text, *, by: int = -2, first: int = 0) -> Callable[[random.Random, Job], Script]:
    """Somebody reports the loss of a node by name; its ranks fall silent. `first`: lowest node that may be lost."""

    def story(rng: random.Random, job: Job) -> Script:
        node = rng.randrange(first, len(job.hosts))
        gone, start = node_ranks(job, node), draw_time(rng)
        lines = text(rng, job, node, start + 30)
        late = rng.uniform(20, 200)
        mark = [i for i, (_, root) in enumerate(lines) if root]
        says = [system(start + late, "\n".join(line for line, _ in lines), *mark, who=by, names=gone)]
        said, ends = echoes(rng, job, gone, start)
        # Hosts and ranks are only linked where somebody says how they are laid out.
        layout = Say(
            0,
            15,
            "ranks by host: "
            + ", ".join(f"{host}={node_ranks(job, i)[0]}-{node_ranks(job, i)[-1]}" for i, host in enumerate(job.hosts)),
            "log",
            level="I",
        )
        return script(
            CATEGORY,
            reason,
            job,
            gone,
            [layout, *says, *said],
            exits=ends,
            fails_at=start,
            silent=tuple(gone),
            peers=False,
        )

    return story


def slurm(rng: random.Random, job: Job, node: int, t: float) -> list[tuple[str, bool]]:
    host, number = job.hosts[node], _system.job_id(job)
    when = _system.stamp(job, t)
    return rng.choice(
        [
            [
                (f"srun: error: Node failure on {host}", True),
                ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", False),
                (
                    f"slurmstepd: error: *** STEP {number}.0 ON {job.hosts[0]} CANCELLED AT {when} DUE TO NODE "
                    "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
                    True,
                ),
            ],
            [
                (
                    f"slurmstepd: error: *** JOB {number} ON {job.hosts[0]} CANCELLED AT {when} DUE TO NODE FAILURE, "
                    "SEE SLURMCTLD LOG FOR DETAILS ***",
                    True,
                ),
                (f"srun: error: Node failure on {host}", True),
            ],
            [(f"srun: error: Node failure on {host}", True), (f"srun: error: Nodes {host} are still not ready", True)],
        ]
    )


def orte(rng: random.Random, job: Job, node: int, t: float) -> list[tuple[str, bool]]:
    family, bar = rng.randint(1000, 65000), "-" * 74
    a, b = job.hosts[0], job.hosts[node]
    return [
        (bar, False),
        ("ORTE has lost communication with a remote daemon.", True),
        ("", False),
        (f"  HNP daemon   : [[{family},0],0] on node {a}", False),
        (f"  Remote daemon: [[{family},0],{node}] on node {b}", True),
        ("", False),
        ("This is usually due to either a failure of the TCP network", False),
        ("connection to the node, or possibly an internal failure of", False),
        ("the daemon itself. We cannot recover from this failure, and", False),
        ("therefore will terminate the job.", False),
        (bar, False),
    ]


def orte_down(rng: random.Random, job: Job, node: int, t: float) -> list[tuple[str, bool]]:
    host = job.hosts[node]
    return [
        (
            f"[{job.hosts[0]}:{rng.randint(900, 90000)}] [[{rng.randint(1000, 65000)},0],0] TCP_CONNECT to {host} "
            "failed: No route to host",
            True,
        ),
        (f"mpirun: lost contact with orted on node {host}, aborting job", True),
    ]


def pdsh(rng: random.Random, job: Job, node: int, t: float) -> list[tuple[str, bool]]:
    host = job.hosts[node]
    return rng.choice(
        [
            [
                (f"{host}: Connection to {host} closed by remote host.", True),
                (f"pdsh@{job.hosts[0]}: {host}: ssh exited with exit code 255", True),
            ],
            [
                (f"{host}: client_loop: send disconnect: Broken pipe", True),
                (f"pdsh@{job.hosts[0]}: {host}: ssh exited with exit code 255", True),
            ],
            [
                (f"{host}: Timeout, server {host} not responding.", True),
                (f"pdsh@{job.hosts[0]}: {host}: ssh exited with exit code 255", True),
            ],
        ]
    )


def ssh(rng: random.Random, job: Job, node: int, t: float) -> list[tuple[str, bool]]:
    host = job.hosts[node]
    return [
        (
            rng.choice(
                [
                    f"Connection to {host} closed by remote host.",
                    f"ssh: connect to host {host} port 22: No route to host",
                    f"Timeout, server {host} not responding.",
                ]
            ),
            True,
        ),
        (f"launch.sh: remote shell on {host} ended with status 255, its workers are gone", True),
    ]


def k8s_evicted(rng: random.Random, job: Job, node: int, t: float) -> list[tuple[str, bool]]:
    pod = _system.pod(job, node)
    cause = rng.choice(
        [
            "The node was low on resource: ephemeral-storage. Threshold quantity: 32212254720, available: 1834Ki.",
            "The node had condition: [DiskPressure].",
            "The node was low on resource: memory.",
        ]
    )
    where = _system.machine(job, node)
    return [
        (f"{rng.randint(2, 59)}s   Warning   Evicted   pod/{pod}   {cause}", True),
        (f"{rng.randint(2, 59)}s   Normal    Killing   pod/{pod}   Stopping container pytorch (host {where})", False),
    ]


def k8s_not_ready(rng: random.Random, job: Job, node: int, t: float) -> list[tuple[str, bool]]:
    pod, where = _system.pod(job, node), _system.machine(job, node)
    return rng.choice(
        [
            [
                (
                    f"{rng.randint(10, 59)}s   Normal    NodeNotReady   node/{where}   Node {where} status is now: "
                    "NodeNotReady",
                    True,
                ),
                (f"{rng.randint(2, 9)}s   Warning   NodeNotReady   pod/{pod}   Node is not ready", True),
                (
                    f"{rng.randint(2, 9)}s   Normal    TaintManagerEviction   pod/{pod}   Marking for deletion Pod "
                    f"train/{pod}",
                    False,
                ),
            ],
            [
                (
                    f"Warning  NodeNotReady  {rng.randint(2, 9)}m  node-controller  Node {where} is not ready: "
                    f"Kubelet stopped posting node status. (pod {pod})",
                    True,
                )
            ],
            [
                (
                    f"pod {pod}: phase Failed, reason NodeLost: Node {where} which was running pod {pod} is "
                    "unresponsive",
                    True,
                )
            ],
        ]
    )


def ray_marked(rng: random.Random, job: Job, node: int, t: float) -> list[tuple[str, bool]]:
    address = ip(job, node_ranks(job, node)[0])
    ident = hexa(rng, 56)
    first = (
        f"(raylet) The node with node id: {ident} and address: {address} and node name: {address} has been marked "
        "dead because the detector has missed too many heartbeats from it. This can happen when a \t(1) raylet "
        "crashes unexpectedly (OOM, etc.) "
    )
    return [(first, True), ("\t(2) raylet has lagging heartbeats due to slow network or busy workload.", False)]


def ray_died(kind: str) -> Callable[[random.Random, Job], Script]:
    """The driver learns of an actor whose node is gone."""

    def story(rng: random.Random, job: Job) -> Script:
        node, start = rng.randrange(len(job.hosts)), draw_time(rng)
        gone, at = node_ranks(job, node), start + rng.uniform(30, 120)
        rank, address = rng.choice(gone), ip(job, gone[0])
        name = {"v1": "RayActorError: The actor died", "v2": "ActorDiedError: The actor died"}[kind]
        why = rng.choice(
            [
                f"The actor is dead because its node has died. Node Id: {hexa(rng, 56)}",
                "The actor died because its node has died. Node Id: " + hexa(rng, 56),
            ]
        )
        tail = "\tthe actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats"
        error = "\n".join(
            [
                f"ray.exceptions.{name} unexpectedly before finishing this task.",
                "\tclass_name: RayTrainWorker",
                f"\tactor_id: {hexa(rng, 32)}",
                f"\tpid: {job.pids[rank]}",
                f"\tnamespace: {hexa(rng, 8)}",
                f"\tip: {address}",
                why,
                *([tail] if kind == "v2" else []),
            ]
        )
        lines = ["Started distributed worker processes: "] + [
            f"- (node_id={hexa(random.Random(r // job.per_node), 12)}, ip={ip(job, r)}, pid={job.pids[r]}) "
            f"world_rank={r}, local_rank={job.local(r)}, node_rank={r // job.per_node}"
            for r in ranks(job)
        ]
        frames = [
            "{user}|<module>|result = trainer.fit()",
            "{site}/ray/train/base_trainer.py|fit|raise TrainingFailedError(",
        ]
        death = raised(job, AGENT, at, frames, error, 0, 6)
        says = [
            Say(AGENT, 10, "\n".join(lines), stream="stdout", maps=tuple(ranks(job))),
            Say(AGENT, at, death.text, "traceback", death.evidence, names=tuple(gone)),
        ]
        said, ends = echoes(rng, job, gone, start)
        return script(
            CATEGORY, "ray_node", job, gone, says + said, exits=ends, fails_at=start, silent=tuple(gone), peers=False
        )

    return story


def keepalive(named: bool) -> Callable[[random.Random, Job], Script]:
    """Rendezvous loses an agent's heartbeats; its workers' peers see connections close."""

    def story(rng: random.Random, job: Job) -> Script:
        node = rng.randrange(1, len(job.hosts))
        gone, start = node_ranks(job, node), draw_time(rng)
        host, ident = job.hosts[node], f"{job.hosts[node]}_{rng.randint(50, 99000)}_0"
        text = (
            f"The node '{ident}' has been removed from the rendezvous "
            f"'{rng.choice(['none', 'job1', _system.job_id(job)])}' since its last keep-alive heartbeat is "
            f"{rng.randint(15, 90)} seconds old: no heartbeat from {host}"
        )
        if not named:
            text = (
                f"agent on {host} (node_rank {node}, global ranks {gone[0]}-{gone[-1]}) stopped answering: no "
                f"heartbeat for {rng.choice([30, 60, 90])} s"
            )
        says = [system(start + 40, text, 0, who=AGENT, names=gone)]
        if named:
            says.append(
                Say(0, 14, f"node_rank {node} is {host}: global ranks {gone[0]} to {gone[-1]}", "log", level="I")
            )
        said, ends = echoes(rng, job, gone, start)
        return script(
            CATEGORY,
            "heartbeat_lost",
            job,
            gone,
            says + said,
            exits=ends,
            fails_at=start,
            silent=tuple(gone),
            peers=False,
        )

    return story


def cloud(rng: random.Random, job: Job, node: int, t: float) -> list[tuple[str, bool]]:
    host = job.hosts[node]
    return [
        (
            rng.choice(
                [
                    f"instance {host} hostError: instance was terminated by the hypervisor host and restarted",
                    f"{host}: EC2 status check failed: instance unreachable (SystemStatus impaired)",
                    f"node {host} heartbeat missing, state Unknown -> Unusable",
                    f"cluster-monitor: lost node {host} (no contact since {_system.stamp(job, t)})",
                ]
            ),
            True,
        )
    ]


def named_peer(rng: random.Random, job: Job) -> Script:
    """The launcher's monitor finds the container of one node gone; survivors time out."""
    node, start = rng.randrange(len(job.hosts)), draw_time(rng)
    gone = node_ranks(job, node)
    work = draw_work(rng, job, "grad")
    says = [
        world_line(rng, job),
        system(
            start + 5,
            f"watch: host {job.hosts[node]} (ranks {gone[0]}..{gone[-1]}) went offline, kernel panic suspected, no "
            "answer to ping",
            0,
            names=gone,
        ),
    ]
    ends: list[Exit] = []
    if job.backend == "nccl":
        for rank in others(job, gone):
            said, end = _nccl.timeout(
                rng, job, rank, work, start + work.timeout / 1000 + rng.uniform(0, 0.9), evidence=False
            )
            says += said
            ends.append(end)
    else:
        frames = main_frames(job)
        says += [
            raised(job, rank, start + 20, frames, "RuntimeError: Connection reset by peer", -1)
            for rank in others(job, gone)
        ]
        ends = exits(rng, others(job, gone), start + 21, 1)
    return script(CATEGORY, "node_lost", job, gone, says, exits=ends, fails_at=start, silent=tuple(gone), peers=False)


SHELF.put("node-slurm", told("node_lost", slurm), NODES, launcher=["srun", "torchrun"])
SHELF.put("node-orte-daemon", told("daemon_lost", orte, by=AGENT, first=1), NODES, launcher=["mpirun"])
SHELF.put("node-orte-connect", told("daemon_lost", orte_down, by=AGENT, first=1), NODES, launcher=["mpirun"])
SHELF.put("node-pdsh", told("ssh_lost", pdsh, by=AGENT, first=1), NODES, launcher=["deepspeed"])
SHELF.put("node-ssh", told("ssh_lost", ssh, by=AGENT, first=1), NODES, launcher=["torchrun", "legacy-launch", "mpirun"])
SHELF.put("node-k8s-evicted", told("pod_evicted", k8s_evicted), NODES, launcher=["k8s", "torchrun"])
SHELF.put("node-k8s-not-ready", told("pod_evicted", k8s_not_ready), NODES, launcher=["k8s", "torchrun"])
SHELF.put("node-ray-marked", told("ray_node", ray_marked, by=AGENT), NODES, launcher=["ray"])
SHELF.put("node-ray-died-v1", ray_died("v1"), NODES, launcher=["ray"])
SHELF.put("node-ray-died-v2", ray_died("v2"), NODES, launcher=["ray"])
SHELF.put("node-keepalive", keepalive(True), NODES, launcher=["torchrun", "accelerate"])
SHELF.put("node-agent-silent", keepalive(False), NODES, launcher=["torchrun", "accelerate", "deepspeed"])
SHELF.put("node-cloud", told("node_lost", cloud), NODES)
SHELF.put("node-offline", named_peer, NODES)
