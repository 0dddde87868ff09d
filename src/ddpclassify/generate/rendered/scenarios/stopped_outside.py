"""A scheduler, cloud or launcher stops the job and says so; the ranks die without a word."""

from __future__ import annotations

import random
from collections.abc import Callable

from ..script import AGENT, SYSTEM, Job, Script
from . import _system
from ._common import Shelf, draw_time, exits, ip, main_frames, ranks, script, stack, system

SHELF = Shelf("preempted")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
CATEGORY = SHELF.category
Story = Callable[[random.Random, Job], Script]
Lines = Callable[[random.Random, Job, float], list[tuple[str, bool]]]
"""What is said about the stop: text, and whether it states it."""


def stop(reason: str, lines: Lines, *, who: int = SYSTEM, code: int = -15, after: Lines | None = None) -> Story:
    """The stop is announced, the ranks die of the signal without a word."""

    def story(rng: random.Random, job: Job) -> Script:
        start = draw_time(rng)
        told = lines(rng, job, start)
        mark = [i for i, (_, root) in enumerate(told) if root]
        says = [system(start, "\n".join(line for line, _ in told), *mark, who=who)]
        if after:
            says.append(system(start + 1.5, "\n".join(line for line, _ in after(rng, job, start)), -1, who=who))
        return script(
            CATEGORY,
            reason,
            job,
            "launcher",
            says,
            exits=exits(rng, ranks(job), start + 0.3, code, 0.5),
            fails_at=start,
            peers=False,
        )

    return story


def aborted(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
    return [("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", False)]


def slurm(why: str) -> Lines:
    return lambda rng, job, t: [(f"slurmstepd: error: {_system.cancelled(job, t, why, rng)}", True)]


def spot(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
    return [
        (
            rng.choice(
                [
                    f'spot-monitor: instance-action {{"action": "terminate", "time": '
                    f'"{_system.stamp(job, t + 120)}Z"}}',
                    f'IMDS /latest/meta-data/spot/instance-action -> {{"action":"stop",'
                    f'"time":"{_system.stamp(job, t + 120)}Z"}}',
                    "EC2 Spot Instance interruption notice received, instance will be reclaimed at "
                    f"{_system.stamp(job, t + 120)}",
                ]
            ),
            True,
        ),
        ("draining workers before the instance goes away", False),
    ]


def gcp(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
    host = job.hosts[-1]
    return [
        (
            rng.choice(
                [
                    "metadata: instance/preempted changed to TRUE, shutting down within 30 seconds",
                    f"google_metadata_script_runner[{rng.randint(400, 3000)}]: Instance {host} was preempted.",
                    f"compute.instances.preempted: Instance {host} was preempted.",
                ]
            ),
            True,
        )
    ]


def azure(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
    return [
        (
            rng.choice(
                [
                    f'scheduledevents: {{"EventType": "Preempt", "ResourceType": "VirtualMachine", "Resources": '
                    f'["{job.hosts[-1]}"], '
                    f'"EventStatus": "Scheduled", "NotBefore": '
                    f'"{_system.stamp(job, t + 30, "%a, %d %b %Y %H:%M:%S GMT")}"}}',
                    "AmlCompute: low priority node preempted, run will be resubmitted",
                ]
            ),
            True,
        )
    ]


def k8s(kind: str) -> Lines:
    def lines(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
        pod = _system.pod(job, 0)
        return {
            "preempt": [
                (
                    f"0s   Warning   Preempted   pod/{pod}   Preempted by pod {rng.getrandbits(64):016x} on node "
                    f"{job.hosts[-1]}",
                    True,
                ),
                (f"0s   Normal    Killing   pod/{pod}   Stopping container pytorch", False),
            ],
            "delete": [
                (f'pod "{pod}" deleted by user {rng.choice(["amy", "ci-bot", "admin"])}', True),
                ("received SIGTERM, terminationGracePeriodSeconds=30", True),
            ],
            "volcano": [
                (f"Warning  Evict  pod/{pod}  Pod is evicted, because of preempt by higher priority job", True)
            ],
            "kueue": [
                (
                    f"Normal  EvictedDueToPreempted  workload/{pod}  Preempted to accommodate a workload (UID: "
                    f"{rng.getrandbits(64):016x}) due to prioritization in the ClusterQueue",
                    True,
                )
            ],
        }[kind]

    return lines


def batch(kind: str) -> Lines:
    def lines(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
        number, hours = _system.job_id(job), rng.choice([1, 4, 12, 24, 72])
        return {
            "lsf": [
                ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", True),
                ("Exited with exit code 140.", False),
            ],
            "lsf-owner": [("TERM_OWNER: job killed by owner.", True), ("Exited with signal termination: 15.", False)],
            "lsf-preempt": [
                ("TERM_PREEMPT: job killed after preemption.", True),
                ("Exited with exit code 143.", False),
            ],
            "pbs": [
                (
                    f"=>> PBS: job killed: walltime {hours * 3600 + rng.randint(3, 40)} exceeded limit {hours * 3600}",
                    True,
                )
            ],
            "pbs-del": [(f"=>> PBS: job {number}.{job.hosts[0]} deleted as requested by user", True)],
            "sge": [(f'job {number} exceeded hard wallclock time "h_rt" of {hours}:00:00, sending SIGKILL', True)],
            "condor": [
                (f"004 ({number}.000.000) {_system.stamp(job, t, '%m/%d %H:%M:%S')} Job was evicted.", True),
                ("\t(0) CPU times", False),
                ("\t(1) Job was not checkpointed.", False),
            ],
            "oar": [
                (f"## OAR [{_system.stamp(job, t, '%Y-%m-%d %H:%M:%S')}] Job {number} KILLED: walltime reached", True)
            ],
            "flux": [
                (
                    f"{rng.randint(5, 90)}.{rng.randint(0, 999):03d}s: job.exception type=timeout severity=0 resource "
                    "allocation expired",
                    True,
                )
            ],
        }[kind]

    return lines


def deepspeed_term(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
    when = f"{_system.stamp(job, t, '%Y-%m-%d %H:%M:%S')},{rng.randint(0, 999):03d}"
    head = f"[{when}] [INFO] [launch.py:{rng.randint(300, 330)}:"
    return [(f"{head}sigkill_handler] Killing subprocess {pid}", False) for pid in job.pids[: job.per_node]] + [
        (f"{head}sigkill_handler] Main process received SIGTERM, exiting", True)
    ]


def mpi_killed(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
    return rng.choice(
        [
            [
                ("mpirun: killing job...", False),
                ("^Cmpirun: abort is already in progress...hit ctrl-c again to forcibly terminate", True),
            ],
            [
                (
                    f"mpirun: Forwarding signal 18 to job\nmpirun: job {_system.job_id(job)} received SIGTERM, "
                    f"killing job...".replace("\n", " "),
                    True,
                )
            ],
        ]
    )


def ray_stop(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
    return [
        (
            rng.choice(
                [
                    f"Job 'raysubmit_{rng.getrandbits(60):015x}' was stopped by the user (ray job stop).",
                    "SIGTERM handler: received stop request from `ray job stop`, shutting down the driver.",
                    f"(autoscaler +{rng.randint(2, 90)}m{rng.randint(1, 59)}s) Draining node {ip(job, 0)}: spot "
                    "instance is being preempted",
                ]
            ),
            True,
        )
    ]


def shell(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
    return [
        (
            rng.choice(
                [
                    "timeout: sending signal TERM to command 'bash'",
                    "run.sh: caught SIGTERM from the scheduler, stopping training",
                    f"run.sh: line {rng.randint(9, 80)}: {job.pids[0]} Terminated              python {job.script}",
                ]
            ),
            True,
        )
    ]


def stacks(rng: random.Random, job: Job, t: float) -> list[tuple[str, bool]]:
    """A stop after a hang watchdog of the scheduler: it kills idle jobs."""
    line = stack(job, main_frames(job))[0].strip()
    return [
        (
            f"job-monitor: GPU utilisation of job {_system.job_id(job)} below 1% for {rng.choice([2, 4, 6])} h, "
            "cancelling by policy",
            True,
        ),
        (f"job-monitor: last stack of pid {job.pids[0]}: {line}", False),
    ]


SLURM = ["srun", "torchrun", "lightning"]
SHELF.put("preempt-slurm-time", stop("time_limit", slurm("DUE TO TIME LIMIT"), after=aborted), launcher=SLURM)
SHELF.put("preempt-slurm-preemption", stop("scheduler", slurm("DUE TO PREEMPTION"), after=aborted), launcher=SLURM)
SHELF.put("preempt-slurm-scancel", stop("user_cancelled", slurm(""), after=aborted), launcher=SLURM)
SHELF.put("preempt-slurm-requeue", stop("scheduler", slurm("DUE TO JOB REQUEUE"), after=aborted), launcher=SLURM)
SHELF.put("preempt-slurm-kill", stop("time_limit", slurm("DUE TO TIME LIMIT"), code=-9), launcher=SLURM)
SHELF.put("preempt-slurm-signal", stop("scheduler", slurm("DUE to SIGNAL Terminated")), launcher=SLURM)
SHELF.put("preempt-aws-spot", stop("spot_reclaim", spot))
SHELF.put("preempt-gcp", stop("spot_reclaim", gcp))
SHELF.put("preempt-azure", stop("spot_reclaim", azure))
for kind in ("preempt", "delete", "volcano", "kueue"):
    SHELF.put(
        f"preempt-k8s-{kind}",
        stop("user_cancelled" if kind == "delete" else "scheduler", k8s(kind)),
        launcher=["k8s", "torchrun"],
    )
for kind, reason in {
    "lsf": "time_limit",
    "lsf-owner": "user_cancelled",
    "lsf-preempt": "scheduler",
    "pbs": "time_limit",
    "pbs-del": "user_cancelled",
    "sge": "time_limit",
    "condor": "scheduler",
    "oar": "time_limit",
    "flux": "time_limit",
}.items():
    SHELF.put(
        f"preempt-{kind}",
        stop(reason, batch(kind)),
        launcher=["mpirun", "torchrun", "legacy-launch", "shell", "accelerate"],
    )
SHELF.put("preempt-deepspeed-term", stop("scheduler", deepspeed_term, who=AGENT), launcher=["deepspeed"])
SHELF.put("preempt-mpirun", stop("user_cancelled", mpi_killed, who=AGENT), launcher=["mpirun"])
SHELF.put("preempt-ray-stop", stop("user_cancelled", ray_stop, who=AGENT), launcher=["ray"])
SHELF.put("preempt-shell", stop("scheduler", shell), launcher=["shell", "torchrun"])
SHELF.put("preempt-idle-policy", stop("scheduler", stacks))
