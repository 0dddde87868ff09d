"""Lines of kernels, schedulers and cloud agents."""

from __future__ import annotations

import random

from ..script import Job, Say
from ._common import clean_evidence, ip, system, wall


def stamp(job: Job, t: float, form: str = "%Y-%m-%dT%H:%M:%S") -> str:
    return wall(job, t).strftime(form)


def job_id(job: Job) -> int:
    return random.Random(f"slurm{job.pids}").randint(10_000, 9_999_999)


def step(job: Job, number: int = 0) -> str:
    return f"{job_id(job)}.{number}"


def kernel(job: Job, t: float, host: str, text: str, style: int) -> str:
    """A line of the kernel's log as `dmesg`, `dmesg -T`, syslog or journalctl would show it."""
    up = random.Random(f"uptime{host}").uniform(2_000, 9_000_000) + t
    if style == 0:
        return f"[{up:.6f}] {text}"
    if style == 1:
        return f"[{stamp(job, t, '%a %b %e %H:%M:%S %Y')}] {text}"
    if style == 2:
        return f"{stamp(job, t, '%b %e %H:%M:%S')} {host} kernel: [{up:.6f}] {text}"
    return f"{stamp(job, t, '%b %d %H:%M:%S')} {host} kernel: {text}"


def kernel_says(job: Job, t: float, node: int, texts: list[str], style: int, *evidence: int) -> Say:
    lines = [kernel(job, t + 0.01 * i, job.hosts[node], text, style) for i, text in enumerate(texts)]
    return system(t, "\n".join(lines), *clean_evidence(evidence), node=node)


def pod(job: Job, node: int) -> str:
    """Pod of a node, named as PyTorchJob does: the master, then workers from 0."""
    if job.launcher == "k8s":
        return job.hosts[node]
    base = job.script.rsplit("/", 1)[-1].removesuffix(".py").replace("_", "-")
    return f"{base}-{f'worker-{node - 1}' if node else 'master-0'}"


def machine(job: Job, node: int) -> str:
    """Name of the machine below a pod."""
    return f"ip-{ip(job, node * job.per_node).replace('.', '-')}" if job.launcher == "k8s" else job.hosts[node]


def oom_kill(rng: random.Random, job: Job, pid: int, cgroup: str, gib: float) -> list[str]:
    """The oom-killer's report, shortened to what schedulers keep."""
    kb = int(gib * 1024 * 1024)
    process = rng.choice(["python", "python3", "pt_main_thread", "pt_data_worker"])
    head = (
        f"{process} invoked oom-killer: gfp_mask=0x{rng.choice(['cc0(GFP_KERNEL)', '100cca(GFP_HIGHUSER_MOVABLE)'])}, "
        f"order=0, oom_score_adj={rng.choice([0, 0, 968, 1000])}"
    )
    where = (
        f"CONSTRAINT_MEMCG,nodemask=(null),cpuset={cgroup.rsplit('/', 1)[-1]},mems_allowed=0-1,oom_memcg={cgroup},"
        f"task_memcg={cgroup}"
        if cgroup
        else "CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/user.slice"
    )
    kind = "Memory cgroup out of memory" if cgroup else "Out of memory"
    return [
        head,
        f"oom-kill:constraint={where},task={process},pid={pid},uid={rng.randint(1000, 70000)}",
        f"{kind}: Killed process {pid} ({process}) total-vm:{kb + rng.randint(1, 9) * 10**7}kB, anon-rss:{kb}kB, "
        f"file-rss:{rng.randint(1, 200000)}kB, shmem-rss:{rng.randint(0, 9000)}kB, UID:{rng.randint(1000, 70000)} "
        f"pgtables:{kb // 400}kB oom_score_adj:0",
    ]


def slurmstepd(job: Job, t: float, text: str, *evidence: int) -> Say:
    return system(t, f"slurmstepd: error: {text}", *evidence)


def cancelled(job: Job, t: float, why: str, rng: random.Random, host: str = "") -> str:
    """`*** STEP … CANCELLED AT … [DUE TO …] ***`; the batch script's own line names the job."""
    what = rng.choice([f"STEP {step(job)}", f"JOB {job_id(job)}"])
    tail = f" {why}" if why else ""
    return f"*** {what} ON {host or job.hosts[0]} CANCELLED AT {stamp(job, t)}{tail} ***"


def pci(rng_key: Job, local: int) -> str:
    """Bus id of a node's GPU: the same in kernel and NCCL lines of a job."""
    buses = [0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD, 0xC1, 0xC8, 0xD1, 0xD8, 0xDF, 0xE3, 0xE9, 0xF0]
    shift = random.Random(f"pci{rng_key.pids}").randint(0, 3)
    return f"0000:{(buses[local % 16] + shift) % 256:02x}:00"


def bus_lines(rng: random.Random, job: Job, t: float) -> list[Say]:
    """NCCL INFO lines of the communicator: they map bus ids to ranks."""
    comm = f"0x{rng.getrandbits(48):x}"
    lines = []
    for rank in range(job.world_size):
        local = job.local(rank)
        device = local if job.cuda_visible_all else 0
        nvml = f"nvmlDev {local} " if job.torch >= (2, 1) else ""
        tail = f" commId 0x{rng.getrandbits(60):x} - Init COMPLETE" if job.torch >= (2, 1) else " - Init COMPLETE"
        text = (
            f"NCCL INFO comm {comm} rank {rank} nranks {job.world_size} cudaDev {device} {nvml}busId "
            f"{int(pci(job, local)[5:7], 16):x}000{tail}"
        )
        # NCCL puts host and pid in front of it.
        lines.append(Say(rank, t + 0.01 * rank, text, "nccl", stream="stdout", maps=(rank,)))
    return lines
