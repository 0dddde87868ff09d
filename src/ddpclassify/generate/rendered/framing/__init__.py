"""Framings: how each launcher turns a script into a log."""

from __future__ import annotations

import random
from collections.abc import Callable

from ..script import Job
from .agents import Accelerate, ElasticLaunch, Pods
from .base import Clock, Launcher
from .composer import Composer
from .deepspeed import DeepSpeed
from .elastic import Elastic
from .legacy import Legacy
from .lightning import Lightning
from .mpirun import Mpirun
from .raytrain import RayTrain
from .shell import Shell
from .spawn import Spawn
from .srun import make_srun

Make = Callable[[random.Random, Job, Clock], Launcher]

FRAMINGS: dict[str, Make] = {
    "torchrun": Elastic,
    "accelerate": Accelerate,
    "k8s": Pods,
    "mp.spawn": Spawn,
    "deepspeed": DeepSpeed,
    "lightning": Lightning,
    "mpirun": Mpirun,
    "srun": make_srun,
    "ray": RayTrain,
    "shell": Shell,
    "composer": Composer,
    "legacy-launch": lambda rng, job, clock: (ElasticLaunch if job.torch >= (1, 9) else Legacy)(rng, job, clock),
}
"""Framing by launcher."""


def make_launcher(rng: random.Random, job: Job, clock: Clock) -> Launcher:
    """The framing of a job's launcher, its variant drawn."""
    return FRAMINGS[job.launcher](rng, job, clock)
