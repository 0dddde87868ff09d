"""Host memory runs out: a process is killed, or an allocation fails."""

from __future__ import annotations

import random
from dataclasses import replace

from ..script import AGENT, Exit, Job, Say, Script
from . import _system
from ._common import (
    SEVERAL,
    Shelf,
    a_rank,
    backward_frames,
    draw_time,
    exits,
    hexa,
    ip,
    main_frames,
    node_of,
    node_ranks,
    raised,
    ranks,
    script,
    stack,
    system,
)
from ._stuck import Story

HOST, LOADER = Shelf("host_oom"), Shelf("shm_exhausted")


def climbing(rng: random.Random, job: Job, rank: int, t: float) -> list[Say]:
    """Memory use that grows towards the end, as programs log it."""
    total = rng.choice([60, 120, 250, 500, 1000])
    form = rng.choice(
        [
            "host memory: {used:.1f}/{total} GiB ({percent:.0f}%)",
            "rss={used:.2f}GB",
            "[mem] used {percent:.1f}% of {total}G",
            "RAM usage {percent:.0f}% ({used:.1f} GiB)",
        ]
    )
    count = rng.randint(3, 8)
    says = []
    for i in range(count):
        used = total * (0.5 + 0.48 * (i + 1) / count)
        text = form.format(used=used, total=total, percent=100 * used / total)
        says.append(
            Say(
                rank,
                60 + (t - 61) * (i + 1) / count,
                text,
                "log",
                level="W" if i == count - 1 else "I",
                stream="stdout",
            )
        )
    return says


def killed(how: str, memory: bool = False) -> Story:
    """One rank is killed; the machine's lines (if any) say by whom, else only exit code -9 is left."""

    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng)
        node, pid = node_of(job, rank), job.pids[rank]
        says: list[Say] = climbing(rng, job, rank if rng.random() < 0.5 else 0, start) if memory else []
        host, number = job.hosts[node], _system.job_id(job)
        reason, mark = "oom_killer", ""
        # The command line tells the local rank: that is the rank on a single node only.
        named = (rank,) if len(job.hosts) == 1 else ()
        if how in ("kernel", "memcg"):
            group = (
                rng.choice(
                    [
                        f"/slurm/uid_{rng.randint(1000, 9000)}/job_{number}/step_0",
                        f"/kubepods/burstable/pod{hexa(rng, 8)}",
                        f"/docker/{hexa(rng, 24)}",
                    ]
                )
                if how == "memcg"
                else ""
            )
            texts = _system.oom_kill(rng, job, pid, group, rng.uniform(20, 400))
            say = _system.kernel_says(job, start + 0.1, node, texts, rng.randint(0, 3), 0, 1, 2)
            says.append(say)
            reason = "cgroup_limit" if how == "memcg" else "oom_killer"
            mark = "unknown"
        elif how == "slurm":
            old = job.torch < (1, 12)
            text = (
                f"Detected 1 oom-kill event(s) in StepId={number}.0 cgroup. Some of your processes may have been "
                "killed by the cgroup out-of-memory handler."
                if old
                else f"Detected 1 oom_kill event in StepId={number}.0. Some of the step tasks have been OOM Killed."
            )
            says.append(system(start + 1, f"slurmstepd: error: {text}", 0, node=node))
            reason, mark = "cgroup_limit", "unknown"
        elif how == "earlyoom":
            says.append(
                system(
                    start,
                    rng.choice(
                        [
                            f'earlyoom[{rng.randint(300, 900)}]: sending SIGTERM to process {pid} uid 1001 "python": '
                            f"badness 1021, VmRSS {rng.randint(20000, 400000)} MiB",
                            f"systemd-oomd[{rng.randint(300, 900)}]: Killed /user.slice/user-1001.slice/"
                            f"session-{rng.randint(1, 90)}.scope due to memory pressure for /user.slice being 71.33% "
                            "> 50.00% for > 20s with reclaim activity",
                        ]
                    ),
                    0,
                    node=node,
                )
            )
            mark = "unknown"
        elif how == "shell":
            says.append(
                system(
                    start + 0.1,
                    f"run.sh: line {rng.randint(8, 60)}: {pid} Killed                  python {job.script} "
                    f"--local_rank {job.local(rank)}",
                    0,
                    node=node,
                    names=named,
                )
            )
            reason = "killed_unconfirmed"
        elif how == "k8s":
            pod = _system.pod(job, node)
            says.append(
                system(
                    start + 2,
                    rng.choice(
                        [
                            f'container "pytorch" in pod {pod} terminated: reason OOMKilled, exit code 137 (host '
                            f"{host})",
                            f"pod/{pod}   0/1   OOMKilled   0   {rng.randint(2, 90)}m",
                            "    Reason:       OOMKilled\n    Exit Code:    137",
                        ]
                    ),
                    0,
                    node=node,
                )
            )
            those = node_ranks(job, node)
            return script(
                "host_oom",
                "cgroup_limit",
                job,
                those,
                says,
                exits=exits(rng, those, start, -9, 0.1),
                fails_at=start,
                no_culprit_mark="unknown",
            )
        else:
            reason = "killed_unconfirmed"
            mark = "unknown"
        return script(
            "host_oom",
            reason,
            job,
            [rank],
            says,
            exits=[Exit(rank, start, -9)],
            fails_at=start,
            silent=(rank,),
            table_is_evidence=how not in ("kernel", "memcg"),
            no_culprit_mark=mark,
        )

    return story


def dataloader(kind: str) -> Story:
    """A worker of the loader is killed; its parent says so."""

    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng)
        pid = job.pids[rank] + rng.randint(200, 4000)
        bus = kind == "bus"
        signal = (
            "Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your "
            "shared memory limit."
            if bus
            else "Killed. "
        )
        first = f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: {signal}"
        inner = [
            rng.choice(backward_frames(job)[:2]),
            "{site}/torch/utils/data/dataloader.py|_try_get_data|data = self._data_queue.get(timeout=timeout)",
            "{site}/torch/utils/data/_utils/signal_handling.py|handler|_error_if_any_worker_fails()",
        ]
        says = []
        if bus:
            says.append(
                Say(
                    rank,
                    start - 0.1,
                    "ERROR: Unexpected bus error encountered in worker. This might be caused by "
                    "insufficient shared memory (shm).\n\x07".rstrip("\n\x07"),
                    evidence=(0,),
                )
            )
        if rng.random() < 0.6:
            says.append(raised(job, rank, start, inner, first))
        else:
            outer = [*main_frames(job), "{site}/torch/utils/data/dataloader.py|__next__|data = self._next_data()"]
            link = "The above exception was the direct cause of the following exception:"
            lines = [
                "Traceback (most recent call last):",
                *stack(job, inner),
                first,
                "",
                link,
                "",
                "Traceback (most recent call last):",
                *stack(job, outer),
                f"RuntimeError: DataLoader worker (pid(s) {pid}) exited unexpectedly",
            ]
            says.append(Say(rank, start, "\n".join(lines), "traceback", (lines.index(first),)))
        category, reason = ("shm_exhausted", "dataloader_bus_error") if bus else ("host_oom", "dataloader_worker")
        return script(
            category,
            reason,
            job,
            [rank],
            says,
            exits=[Exit(rank, start + 0.5, 1)],
            fails_at=start,
            no_culprit_mark="unknown",
        )

    return story


def raylet(rng: random.Random, job: Job) -> Script:
    """Ray's memory monitor kills a worker before the kernel does."""
    rank, start = a_rank(rng, job), draw_time(rng)
    address, used, total = ip(job, rank), rng.uniform(58, 61), 62.11
    lines = [
        f"(raylet, ip={address}) [{_system.stamp(job, start, '%Y-%m-%d %H:%M:%S')},{rng.randint(0, 999):03d} E "
        f"{rng.randint(90, 900)} {rng.randint(90, 900)}] (raylet) node_manager.cc:3007: 1 Workers (tasks / actors) "
        f"killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: {hexa(rng, 56)}, "
        f"IP: {address}) over the last time period.",
    ]
    error = (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node "
        f"(IP: {address}, ID: {hexa(rng, 56)}) where the task (actor ID: {hexa(rng, 32)}, name=RayTrainWorker, "
        f"pid={job.pids[rank]}, memory used={used / 3:.2f}GB) was running was {used:.2f}GB / {total}GB "
        f"({used / total:.6f}), which exceeds the memory usage threshold of 0.95."
    )
    layout = f"Started training worker group of size {job.world_size}: " + "".join(
        f"\n- (ip={ip(job, r)}, pid={job.pids[r]}) world_rank={r}, local_rank={job.local(r)}, "
        f"node_rank={node_of(job, r)}"
        for r in ranks(job)
    )
    frames = [
        "{user}|<module>|result = trainer.fit()",
        "{site}/ray/train/base_trainer.py|fit|raise TrainingFailedError(",
    ]
    death = raised(job, AGENT, start + 1, frames, error, 0, 1)
    says = [
        Say(AGENT, 10, layout, stream="stdout", maps=tuple(ranks(job))),
        Say(AGENT, start, "\n".join(lines), evidence=(0,)),
        replace(death, names=(rank,)),
    ]
    return script(
        "host_oom",
        "ray_memory_monitor",
        job,
        [rank],
        says,
        exits=[Exit(rank, start, -9)],
        fails_at=start,
        silent=(rank,),
        peers=False,
    )


def allocation(rng: random.Random, job: Job) -> Script:
    """Several ranks of a node load the same thing at once and the host's memory is gone."""
    node, start = rng.randrange(len(job.hosts)), draw_time(rng, 30, 300)
    those = node_ranks(job, node)
    size = rng.randint(2**31, 2**37)
    root = "/pytorch" if job.torch >= (2, 6) else "../"
    error = (
        f"RuntimeError: [enforce fail at {root}{'/' if root == '/pytorch' else ''}c10/core/impl/"
        f"alloc_cpu.cpp:{rng.choice([66, 75, 80, 114, 116, 127])}] err == 0. DefaultCPUAllocator: can't allocate "
        f"memory: you tried to allocate {size} bytes. Error code 12 (Cannot allocate memory)"
    )
    frames = [*main_frames(job)[:2], "{dir}/data.py|load_all|table = torch.empty(shape, dtype=torch.float32)"]
    says = [raised(job, rank, start + rng.uniform(0, 0.5), frames, error) for rank in those]
    return script(
        "host_oom",
        "allocation_failed",
        job,
        those,
        says,
        fails_at=start,
        exits=exits(rng, those, start + 1, 1),
        no_culprit_mark="unknown",
    )


HOST.put("hostoom-kernel", killed("kernel"))
HOST.put("hostoom-kernel-climbing", killed("kernel", memory=True))
HOST.put("hostoom-memcg", killed("memcg"))
HOST.put("hostoom-memcg-climbing", killed("memcg", memory=True))
HOST.put("hostoom-sigkill", killed("bare"))
HOST.put("hostoom-sigkill-climbing", killed("bare", memory=True))
HOST.put("hostoom-slurm", killed("slurm"), launcher=["srun", "torchrun", "lightning"])
HOST.put("hostoom-slurm-climbing", killed("slurm", memory=True), launcher=["srun", "torchrun", "lightning"])
HOST.put("hostoom-earlyoom", killed("earlyoom"))
HOST.put("hostoom-shell-killed", killed("shell"), launcher=["shell", "mp.spawn", "torchrun", "legacy-launch"])
HOST.put("hostoom-k8s", killed("k8s"), launcher=["k8s", "torchrun"])
HOST.put("hostoom-loader", dataloader("killed"))
HOST.put("hostoom-raylet", raylet, launcher=["ray"])
HOST.put("hostoom-allocation-node", allocation, SEVERAL)
LOADER.put("shm-loader-bus", dataloader("bus"))
SCENARIOS = HOST.scenarios | LOADER.scenarios
NEEDS = HOST.needs | LOADER.needs
