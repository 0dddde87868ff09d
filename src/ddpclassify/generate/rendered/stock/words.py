"""Vocabulary of invented jobs, and the placeholders that draw from it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from ..script import Job
from .tables import table

WORDS = {name: text.split() for name, text in table("words").items()}


def size_text(gib: float) -> str:
    """Memory size as torch prints it."""
    if gib >= 1:
        return f"{gib:.2f} GiB"
    return f"{gib * 1024:.2f} MiB"


def _uuid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _bounds(argument: str, low: int, high: int) -> tuple[int, int]:
    if not argument:
        return low, high
    first, _, last = argument.partition("-")
    return int(first), int(last or first)


class Fill:
    """Draws placeholder values, once a name: the same placeholder has the same value all through a log."""

    def __init__(self, rng: random.Random, job: Job) -> None:
        self.rng = rng
        self.job = job
        self.user = user_of(job)
        self.data_root = rng.choice(WORDS["data_roots"]).format(user=self.user)
        self.run = rng.choice(WORDS["runs"])
        self._drawn: dict[str, str] = {}

    _PLACEHOLDER = re.compile(r"\{([a-z_]+)(?::([^{}#]*))?(#\w+)?\}")

    def __call__(self, template: str, rank: int | None = None) -> str:
        """Fill every known placeholder of `template`; unknown braces stay as they are."""
        return self._PLACEHOLDER.sub(lambda found: self._value(found, rank), template)

    def once(self, key: str, draw: Callable[[random.Random], str]) -> str:
        """Value kept under `key` for the rest of the log."""
        if key not in self._drawn:
            self._drawn[key] = draw(self.rng)
        return self._drawn[key]

    def _value(self, found: re.Match[str], rank: int | None) -> str:
        name, argument = found[1], found[2] or ""
        if name in OF_RANK:
            return OF_RANK[name](self.job, rank or 0)
        if name in OF_JOB:
            return OF_JOB[name](self)
        if name not in DRAWN or (argument and name not in TAKES_ARGUMENT):
            return found[0]
        value = self.once(found[0], lambda rng: DRAWN[name](rng, argument, self))
        # Amounts that a second placeholder reports (free, in use…) differ a little from GPU to GPU.
        if name == "size" and found[3] and rank:
            number, unit = value.split()
            return f"{float(number) * (1 + rank % 7 * 0.003):.2f} {unit}"
        return value


def user_of(job: Job) -> str:
    """Login name in the job's working directory."""
    parts = job.workdir.strip("/").split("/")
    return parts[1] if parts[0] in ("home", "scratch", "lustre", "fsx") and len(parts) > 1 else "root"


def python_binary(job: Job) -> str:
    """Interpreter that owns the job's site-packages."""
    root = job.site.split("/lib/python")[0]
    return f"{root}/bin/python3" if root in ("/usr", "/usr/local") else f"{root}/bin/python"


def node_ip(job: Job, node: int) -> str:
    """Address of a host, the same all through a log."""
    rng = random.Random(f"{job.hosts}{job.pids}")
    net = rng.choice(["10.0.{}", "10.128.{}", "172.31.{}", "192.168.{}"]).format(rng.randint(0, 200))
    return f"{net}.{rng.randint(2, 150) + node}"


OF_RANK: dict[str, Callable[[Job, int], str]] = {
    "rank": lambda job, rank: str(rank),
    "local_rank": lambda job, rank: str(job.local(rank)),
    "gpu": lambda job, rank: str(job.local(rank) if job.cuda_visible_all else 0),
    "pid": lambda job, rank: str(job.pids[rank]),
    "host": lambda job, rank: job.host(rank),
    "ip": lambda job, rank: node_ip(job, rank // job.per_node),
}
OF_JOB: dict[str, Callable[[Fill], str]] = {
    "world_size": lambda fill: str(fill.job.world_size),
    "user": lambda fill: fill.job.workdir,
    "site": lambda fill: fill.job.site,
    "pybin": lambda fill: python_binary(fill.job),
    "script": lambda fill: fill.job.script,
}
TAKES_ARGUMENT = {"int", "float", "choice", "size"}


def _int(rng: random.Random, argument: str, fill: Fill) -> str:
    return str(rng.randint(*_bounds(argument, 2, 4096)))


def _float(rng: random.Random, argument: str, fill: Fill) -> str:
    low, _, high = argument.partition("-")
    return f"{rng.uniform(float(low or 0), float(high or 1)):.4f}"


def _size(rng: random.Random, argument: str, fill: Fill) -> str:
    return size_text(rng.choice((rng.uniform(0.02, 0.98), rng.uniform(1, 4), rng.uniform(4, 70))))


def _shape(rng: random.Random, argument: str, fill: Fill) -> str:
    batch = rng.choice((1, 2, 4, 8, 16, 32, 64, 128))
    rest = rng.choice(
        ([3, 224, 224], [3, 512, 512], [768], [512, 1024], [64, 56, 56], [2048, 4096], [256], [128, 32, 32])
    )
    return str([batch, *rest])


def _path(rng: random.Random, argument: str, fill: Fill) -> str:
    return (
        f"{fill.job.workdir}/{rng.choice(('configs/base.yaml', 'data/meta.json', 'assets/vocab.txt', 'logs/run.log'))}"
    )


def _data_path(rng: random.Random, argument: str, fill: Fill) -> str:
    name = rng.choice(WORDS["datasets"])
    leaf = rng.choice((
        f"train/n0{rng.randint(1440764, 1530000)}/img_{rng.randint(1, 99999)}.JPEG",
        f"annotations/instances_{rng.choice(('train', 'val'))}2017.json",
        f"shard-{rng.randint(0, 999):05d}.tar",
        f"train/{rng.randint(0, 999999):08d}.jpg",
        f"part-{rng.randint(0, 400):05d}.parquet",
        f"wavs/spk{rng.randint(1, 400)}/utt_{rng.randint(1, 9999):04d}.wav",
        "train.lmdb/data.mdb", "tokens_train.bin", "metadata.csv", f"clips/{rng.getrandbits(44):x}.mp4",
    ))  # fmt: skip
    return f"{fill.data_root}/{name}/{leaf}"


def _ckpt_path(rng: random.Random, argument: str, fill: Fill) -> str:
    leaf = rng.choice((
        "last.ckpt", "best.pth", f"checkpoint-{rng.randint(1, 90) * 500}/pytorch_model.bin", "model_final.pth",
        f"epoch={rng.randint(1, 40)}-step={rng.randint(400, 90000)}.ckpt", f"iter_{rng.randint(1, 99) * 1000:07d}.pt",
        f"global_step{rng.randint(1, 99) * 100}/mp_rank_00_model_states.pt", f"ckpt_{rng.randint(1, 300)}.pt",
    ))  # fmt: skip
    return f"{fill.job.workdir}/{rng.choice(('checkpoints', 'output', 'ckpt', 'work_dirs'))}/{fill.run}/{leaf}"


def _out_path(rng: random.Random, argument: str, fill: Fill) -> str:
    return f"{fill.job.workdir}/{rng.choice(('output', 'runs', 'results', 'logs', 'work_dirs'))}/{fill.run}"


def _cache_path(rng: random.Random, argument: str, fill: Fill) -> str:
    home = "/root" if fill.user == "root" else f"/home/{fill.user}"
    leaf = rng.choice(("huggingface/hub", "huggingface/datasets", "torch/hub", "huggingface"))
    return f"{home}/.cache/{leaf}"


def _pick(words: list[str]) -> Callable[[random.Random, str, Fill], str]:
    return lambda rng, argument, fill: rng.choice(words)


DRAWN: dict[str, Callable[[random.Random, str, Fill], str]] = {
    "name": _pick(WORDS["identifiers"]),
    "attr": _pick(WORDS["attributes"]),
    "cls": _pick(WORDS["classes"]),
    "func": _pick(WORDS["functions"]),
    "module": _pick(WORDS["modules"]),
    "key": _pick(WORDS["keys"]),
    "lib": _pick(WORDS["libraries"]),
    "dtype": _pick(WORDS["dtypes"]),
    "url": _pick(WORDS["urls"]),
    "layer": _pick(WORDS["layers"]),
    "dataset": _pick(WORDS["datasets"]),
    "int": _int,
    "float": _float,
    "size": _size,
    "shape": _shape,
    "path": _path,
    "data_path": _data_path,
    "ckpt_path": _ckpt_path,
    "out_path": _out_path,
    "cache_path": _cache_path,
    "dim": lambda rng, argument, fill: str(rng.choice((3, 10, 64, 80, 128, 256, 512, 768, 1000, 1024, 2048, 4096))),
    "port": lambda rng, argument, fill: str(
        rng.choice((29500, 29501, 12355, 23456, 6000, 9901, rng.randint(20000, 60000)))
    ),
    "hex": lambda rng, argument, fill: f"{rng.randrange(0x7F0000000000, 0x7FFFFFFFFFFF):x}",
    "version": lambda rng, argument, fill: f"{rng.randint(0, 4)}.{rng.randint(0, 24)}.{rng.randint(0, 9)}",
    "step": lambda rng, argument, fill: str(rng.randint(10, 90000)),
    "uuid": lambda rng, argument, fill: _uuid(rng),
    "choice": lambda rng, argument, fill: rng.choice(argument.split("|")),
}
