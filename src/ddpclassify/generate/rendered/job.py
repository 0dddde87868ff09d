"""Draws the healthy jobs that faults hit."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from .script import Job
from .stock.words import WORDS

LAUNCHERS: dict[str, float] = {
    "torchrun": 26, "legacy-launch": 8, "mp.spawn": 8, "accelerate": 9, "lightning": 8, "deepspeed": 8, "mpirun": 6,
    "srun": 9, "ray": 6, "k8s": 6, "shell": 4, "composer": 2,
}  # fmt: skip
"""Launchers and how often each is drawn."""

ONE_NODE = {"mp.spawn", "lightning", "shell"}
FIRST_TORCH: dict[str, tuple[int, int]] = {
    "torchrun": (1, 10),
    "accelerate": (1, 10),
    "composer": (1, 12),
    "ray": (1, 11),
}

TORCH: dict[tuple[int, int], float] = {
    (1, 8): 5, (1, 9): 4, (1, 10): 5, (1, 11): 3, (1, 12): 5, (1, 13): 7, (2, 0): 10, (2, 1): 9, (2, 2): 7, (2, 3): 7,
    (2, 4): 8, (2, 5): 7, (2, 6): 7, (2, 7): 6, (2, 8): 5, (2, 9): 5, (2, 10): 3, (2, 11): 3, (2, 12): 2, (2, 13): 2,
}  # fmt: skip
"""Releases of torch and how often each is drawn."""

PYTHON: list[tuple[tuple[int, int], list[int]]] = [
    ((1, 10), [7, 8, 8, 9]), ((2, 0), [8, 8, 9, 10]), ((2, 3), [8, 9, 10, 10, 11]), ((2, 6), [9, 10, 10, 11, 12]),
    ((2, 9), [10, 11, 12, 12, 13]), ((9, 0), [10, 11, 12, 12, 13, 14]),
]  # fmt: skip
"""Minor versions of Python 3 in use with releases of torch below the given one."""

WORLD: dict[int, float] = {
    1: 6,
    2: 18,
    3: 2,
    4: 24,
    6: 2,
    8: 26,
    16: 10,
    24: 1,
    32: 5,
    64: 3,
    128: 0.5,
    256: 0.5,
    512: 0.1,
}

SITES = (
    "/opt/conda/lib/python{v}/site-packages",
    "/usr/local/lib/python{v}/dist-packages",
    "/home/{user}/miniconda3/envs/{env}/lib/python{v}/site-packages",
    "/usr/local/lib/python{v}/site-packages",
    "/home/{user}/anaconda3/envs/{env}/lib/python{v}/site-packages",
    "{workdir}/.venv/lib/python{v}/site-packages",
    "/root/miniconda3/envs/{env}/lib/python{v}/site-packages",
    "/opt/venv/lib/python{v}/site-packages",
    "/home/{user}/{env}/lib/python{v}/site-packages",
    "/root/.pyenv/versions/{v}.4/envs/{env}/lib/python{v}/site-packages",
)
WORKDIRS = (
    "/home/{user}/{project}",
    "/workspace/{project}",
    "/home/{user}/code/{project}",
    "/root/{project}",
    "/app",
    "/scratch/{user}/{project}",
    "/mnt/{user}/projects/{project}",
    "/data/{user}/{project}",
    "/workspace",
    "/lustre/{user}/{project}",
    "/fsx/{user}/{project}",
    "/opt/ml/code",
    "/gpfs/work/{user}/{project}",
    "/home/{user}/work/{project}",
)
ENVS = [
    "torch",
    "pt",
    "pytorch",
    "dl",
    "ml",
    "env",
    "base2",
    "ddp",
    "train",
    "py39",
    "llm",
    "openmmlab",
    "lightning",
    "nerf",
    "research",
]


def weighted(rng: random.Random, weights: Mapping[str, float]) -> str:
    """Key of a weight table."""
    return rng.choices(list(weights), weights=list(weights.values()))[0]


def draw_job(rng: random.Random, needs: Mapping[str, Sequence[str]] | None = None) -> Job | None:
    """Draw a job that meets `needs`.

    Parameters
    ----------
    rng
        Source of randomness.
    needs
        Allowed values by field of the job: ``launcher``, ``backend``, ``world_size``, ``nodes``, ``per_node``;
        ``torch`` and ``python`` as a range (``["2.3", "2.9"]``), ``torch_min``, ``torch_max`` and so on with one bound;
        ``launcher_not`` and the like exclude values.

    Returns
    -------
    Job or None
        None when nothing drawn in a few hundred attempts meets the needs.
    """
    needs = needs or {}
    for _ in range(600):
        job = _draw(rng, needs)
        if all(_meets(job, key, allowed) for key, allowed in needs.items()):
            return job
    return None


def version_number(version: tuple[int, int]) -> float:
    """Order-preserving number of a two-part version: 2.13 lies above 2.9."""
    return version[0] + version[1] / 100


def parse_version(text: object) -> float:
    """Number of a version written ``2.13``."""
    major, _, minor = str(text).partition(".")
    return version_number((int(major), int(minor or 0)))


def _in_range(version: tuple[int, int], bounds: Sequence[object]) -> bool:
    return parse_version(bounds[0]) <= version_number(version) <= parse_version(bounds[-1])


FIELDS: dict[str, Callable[[Job], object]] = {
    "launcher": lambda job: job.launcher,
    "backend": lambda job: job.backend,
    "world_size": lambda job: job.world_size,
    "nodes": lambda job: len(job.hosts),
    "per_node": lambda job: job.per_node,
    "cuda_visible_all": lambda job: job.cuda_visible_all,
    "torch": lambda job: job.torch,
    "python": lambda job: job.python,
}


def _meets(job: Job, key: str, allowed: Sequence[object]) -> bool:
    if not allowed:
        return True
    if key in ("torch", "python"):
        return _in_range(job.torch if key == "torch" else job.python, allowed)
    if key.endswith(("_min", "_max")):
        field, _, side = key.rpartition("_")
        value = FIELDS[field](job)
        found = version_number(value) if isinstance(value, tuple) else float(str(value))
        bound = parse_version(allowed[0]) if isinstance(value, tuple) else float(str(allowed[0]))
        return found >= bound if side == "min" else found <= bound
    if key.endswith("_not"):
        return str(FIELDS[key[:-4]](job)) not in {str(value) for value in allowed}
    return str(FIELDS[key](job)) in {str(value) for value in allowed}


def _draw(rng: random.Random, needs: Mapping[str, Sequence[str]]) -> Job:
    launchers = needs.get("launcher")
    table = {name: LAUNCHERS[name] for name in launchers if name in LAUNCHERS} if launchers else LAUNCHERS
    launcher = weighted(rng, table)
    torch = rng.choices(list(TORCH), weights=list(TORCH.values()))[0]
    if torch < FIRST_TORCH.get(launcher, (1, 8)):
        torch = rng.choice([release for release in TORCH if release >= FIRST_TORCH[launcher]])
    if launcher == "legacy-launch" and torch > (2, 2) and rng.random() < 0.8:
        torch = rng.choice([(1, 8), (1, 8), (1, 9), (1, 10), (1, 12), (1, 13), (2, 0), (2, 1)])
    minor = rng.choice(next(minors for below, minors in PYTHON if torch < below))

    worlds = {int(size): WORLD.get(int(size), 1.0) for size in needs.get("world_size") or WORLD}
    world = rng.choices(list(worlds), weights=list(worlds.values()))[0]
    nodes = 1
    if launcher in ONE_NODE:
        world = min(world, 8)
    elif world > 8:
        nodes = max(world // 8, 1)
    elif world >= 2 and world % 2 == 0 and rng.random() < 0.25:
        nodes = 2 if world < 8 or rng.random() < 0.6 else 4
    user, project = rng.choice(WORDS["users"]), rng.choice(WORDS["projects"])
    workdir = rng.choice(WORKDIRS).format(user=user, project=project)
    site = rng.choice(SITES).format(user=user, env=rng.choice(ENVS), v=f"3.{minor}", workdir=workdir)
    first, rack, form = rng.randint(1, 40), rng.randint(0, 9), rng.choice(WORDS["hosts"])
    hosts = tuple(form.format(n=first + k, a=rack) for k in range(nodes))
    if launcher == "k8s":
        job_name = (
            f"{rng.choice(WORDS['projects'])}-{rng.choice(('ddp', 'job', 'train', 'pt'))}-{rng.getrandbits(20):05x}"
        )
        hosts = tuple(f"{job_name}-{'master-0' if k == 0 else f'worker-{k - 1}'}" for k in range(nodes))
    return Job(
        world_size=world,
        per_node=world // nodes,
        hosts=hosts,
        backend="nccl" if rng.random() < 0.78 else "gloo",
        launcher=launcher,
        torch=torch,
        python=(3, minor),
        script=rng.choice(WORDS["scripts"]),
        workdir=workdir,
        site=site,
        pids=_pids(rng, world, world // nodes),
        cuda_visible_all=not (launcher in ("srun", "ray", "mpirun") and rng.random() < 0.4),
    )


def _pids(rng: random.Random, world: int, per_node: int) -> tuple[int, ...]:
    """Process ids: close together on a node, unrelated between nodes."""
    pids: list[int] = []
    for rank in range(world):
        fresh = rank % per_node == 0
        pids.append(rng.choice((rng.randint(40, 900), rng.randint(2000, 99000), rng.randint(100000, 3900000)))
                    if fresh else pids[-1] + rng.choice((1, 1, 1, 1, 2, 3)))  # fmt: skip
    return tuple(pids)


YEARS: list[tuple[tuple[int, int], int]] = [
    ((2, 6), 2025),
    ((2, 2), 2024),
    ((2, 0), 2023),
    ((1, 10), 2022),
    ((1, 0), 2021),
]


def start_of(job: Job) -> datetime:
    """When the job began: fixed by the job, so that all its lines agree, and not before its torch was released."""
    rng = random.Random(f"{job.pids}{job.hosts}{job.torch}")
    year = next(year for release, year in YEARS if job.torch >= release) + rng.randint(0, 1)
    return datetime(year, 1, 1) + timedelta(days=rng.randrange(364), seconds=rng.randrange(86400))
