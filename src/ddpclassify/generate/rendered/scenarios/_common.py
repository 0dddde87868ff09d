"""What every scenario needs: labels, clocks, tracebacks, the shelf that templates are put on."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from ..job import start_of
from ..script import SYSTEM, Exit, Fault, Job, Say, Script

T = TypeVar("T")
Needs = dict[str, Sequence[str]]
Version = tuple[int, int]

NCCL: dict[str, Sequence[object]] = {"backend": ["nccl"]}
GLOO: dict[str, Sequence[object]] = {"backend": ["gloo"]}
SEVERAL: dict[str, Sequence[object]] = {"world_size": [2, 3, 4, 6, 8, 16, 32, 64]}
THREE: dict[str, Sequence[object]] = {"world_size": [3, 4, 6, 8, 16, 32]}
NODES: dict[str, Sequence[object]] = {"nodes": [2, 3, 4, 8, 16]}

HEARD: dict[str, Sequence[object]] = {
    "launcher": [
        "torchrun", "legacy-launch", "accelerate", "lightning", "deepspeed", "mpirun", "srun", "k8s", "shell",
        "composer",
    ]
}  # fmt: skip
"""Launchers under which every rank's traceback is seen (mp.spawn and Ray show the first): who is missing is known."""

TRACEBACK = "Traceback (most recent call last):"


@dataclass
class Shelf:
    """The templates of one category."""

    category: str
    scenarios: dict[str, tuple[str, Fault]] = field(default_factory=dict)
    needs: dict[str, Needs] = field(default_factory=dict)

    def put(self, name: str, fault: Fault, *needs: Mapping[str, Sequence[object]], **more: Sequence[object]) -> None:
        """Add a template; its needs (the last row with a key wins) are also written into every script that it tells."""
        if name in self.scenarios:
            raise ValueError(f"two templates named {name}")
        wanted: Needs = {}
        for row in (*needs, more):
            wanted |= {key: [str(value) for value in values] for key, values in row.items()}

        def told(rng: random.Random, job: Job) -> Script:
            story = fault(rng, job)
            story.needs = dict(wanted)
            return story

        self.scenarios[name] = (self.category, told)
        self.needs[name] = wanted


def script(category: str, reason: str, job: Job, who: Iterable[int] | str, says: list[Say], **more: Any) -> Script:
    """A script whose scope follows from who failed: ranks, or the name of a scope.

    One process, or every rank, is `all` by the labelling rules.
    """
    if isinstance(who, str):
        return Script(category, reason, who, (), says, **more)
    ranks = tuple(sorted(set(who)))
    if len(ranks) == job.world_size:
        more.pop("no_culprit_mark", None)
        return Script(category, reason, "all", (), says, **more)
    return Script(category, reason, "ranks", ranks, says, **more)


def early(
    category: str,
    reason: str,
    job: Job,
    who: Iterable[int] | str,
    says: list[Say],
    ends: list[Exit],
    start: float,
    **more: Any,
) -> Script:
    """A failure before the group exists."""
    return script(category, reason, job, who, says, exits=ends, start=start, fails_at=start, in_group=False, **more)


def since(version: Version, table: list[tuple[Version, T]]) -> T:
    """The value of the last row that is not newer than `version`; rows are sorted."""
    found = table[0][1]
    for first, value in table:
        if first <= version:
            found = value
    return found


def wall(job: Job, t: float) -> datetime:
    """Local time `t` seconds after the start."""
    return start_of(job) + timedelta(seconds=t)


def draw_time(rng: random.Random, lo: float = 90, hi: float = 5000) -> float:
    """When the trouble begins."""
    return round(rng.uniform(lo, hi), 3)


def ranks(job: Job) -> range:
    return range(job.world_size)


def others(job: Job, those: Iterable[int]) -> list[int]:
    gone = set(those)
    return [rank for rank in ranks(job) if rank not in gone]


def node_of(job: Job, rank: int) -> int:
    return rank // job.per_node


def node_ranks(job: Job, node: int) -> list[int]:
    return [rank for rank in ranks(job) if node_of(job, rank) == node]


def a_rank(rng: random.Random, job: Job) -> int:
    return rng.randrange(job.world_size)


def some_ranks(rng: random.Random, job: Job, most: int = 3) -> list[int]:
    """A minority of at least one rank."""
    count = rng.randint(1, max(1, min(most, (job.world_size - 1) // 2)))
    return sorted(rng.sample(ranks(job), count))


def ip(job: Job, rank: int) -> str:
    """The address of the rank's host, the same wherever it is printed."""
    rng = random.Random(f"{job.hosts}{job.pids}")
    net = rng.choice(["10.0.{}", "10.128.{}", "172.31.{}", "192.168.{}"]).format(rng.randint(0, 200))
    return f"{net}.{rng.randint(2, 150) + node_of(job, rank)}"


def port(rng: random.Random) -> int:
    return rng.randint(32768, 60999)


def hexa(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def exits(rng: random.Random, those: Iterable[int], t: float, code: int, spread: float = 1.0) -> list[Exit]:
    return [Exit(rank, t + rng.uniform(0, spread), code) for rank in those]


def system(t: float, text: str, *evidence: int, node: int = 0, names: Sequence[int] = (), who: int = SYSTEM) -> Say:
    """A line of the machine (or agent); the first line is the evidence unless told otherwise (-1: none)."""
    return Say(who, t, text, evidence=clean_evidence(evidence), node=node, names=tuple(names))


def clean_evidence(evidence: Sequence[int]) -> tuple[int, ...]:
    return tuple(e for e in (evidence or (0,)) if e >= 0)


def world_line(rng: random.Random, job: Job) -> Say:
    """Rank 0 says how many ranks there are: without it nobody could miss the highest one."""
    w = job.world_size
    text = rng.choice(
        [
            f"Distributed run: world_size={w}, nodes={len(job.hosts)}",
            f"Using {w} processes",
            f"initialized process group, backend {job.backend}, world size {w}",
            f"Training on {w} devices",
            f"| distributed init (rank 0/{w})",
        ]
    )
    return Say(0, rng.uniform(20, 40), text, rng.choice(["log", "raw"]), level="I")


# ---- Python tracebacks ------------------------------------------------------------------------------------------

_MAINS = [
    ["{user}|<module>|main()", "{user}|main|train(args, model, loader, optimizer)"],
    [
        "{user}|<module>|main(parse_args())",
        "{user}|main|train_one_epoch(model, train_loader, optimizer, epoch, device)",
    ],
    [
        "{user}|<module>|trainer.fit(epochs=cfg.epochs)",
        "{dir}/engine.py|fit|self.train_epoch(epoch)",
        "{dir}/engine.py|train_epoch|stats = self.train_step(batch)",
    ],
    ["{user}|<module>|run(cfg)", "{user}|run|trainer.train()", "{dir}/trainer.py|train|self._run_epoch(epoch)"],
]


def main_frames(job: Job) -> list[str]:
    """The user's part of a traceback; the same on all ranks of a job."""
    return random.Random(f"main{job.pids}").choice(_MAINS)


def _caret_line(job: Job, source: str) -> str:
    """The marks below a source line since Python 3.11; none where they would cover the whole line."""
    if job.python < (3, 11):
        return ""
    lead = next((len(head) for head in ("return ", "with ") if source.startswith(head)), 0)
    if not lead and " = " in source.split("(")[0]:
        lead = source.index(" = ") + 3
    marked = source[lead:]
    if not marked.endswith(")") or source.startswith(("raise ", "if ", "for ")):
        return ""
    if job.python >= (3, 13):
        brace = marked.index("(")
        return " " * (4 + lead) + "~" * brace + "^" * (len(marked) - brace)
    return " " * (4 + lead) + "^" * len(marked) if lead else ""


def stack(job: Job, frames: Iterable[str]) -> list[str]:
    """`file|function|source` rows as Python prints them; line numbers are fixed by job and era."""
    lines = []
    for row in frames:
        file, function, source = row.split("|")
        own = file.startswith(("{user}", "{dir}"))
        number = random.Random(f"{row}{job.pids[:1] if own else job.torch}").randint(20, 400 if own else 2800)
        file = file.format(user=f"{job.workdir}/{job.script}", dir=job.workdir, site=job.site)
        lines += [f'  File "{file}", line {number}, in {function}', f"    {source}"]
        carets = _caret_line(job, source)
        if carets:
            lines.append(carets)
    return lines


def traceback(job: Job, frames: Iterable[str], error: str) -> str:
    return "\n".join([TRACEBACK, *stack(job, frames), error])


def raised(job: Job, rank: int, t: float, frames: Iterable[str], error: str, *evidence: int) -> Say:
    """An uncaught exception; `evidence` counts lines from the one with the type on (none given: that one)."""
    text = traceback(job, frames, error)
    head = text.count("\n") - error.count("\n")
    return Say(rank, t, text, "traceback", tuple(head + e for e in clean_evidence(evidence)))


def c10d_frames(job: Job, function: str, source: str) -> list[str]:
    """Frames of a collective called from Python."""
    logger = ["{site}/torch/distributed/c10d_logger.py|wrapper|return func(*args, **kwargs)"]
    return [
        *(logger if job.torch >= (2, 1) else []),
        f"{{site}}/torch/distributed/distributed_c10d.py|{function}|{source}",
    ]


def backward_frames(job: Job, source: str = "loss.backward()") -> list[str]:
    engine = (
        ["{site}/torch/autograd/graph.py|_engine_run_backward|return Variable._execution_engine.run_backward("]
        if job.torch >= (2, 3)
        else []
    )
    tail = "Variable._execution_engine.run_backward("
    return [
        *main_frames(job),
        f"{{dir}}/{job.script}|train_step|{source}",
        f"{{site}}/torch/{'_tensor' if job.torch >= (1, 9) else 'tensor'}.py|backward|torch.autograd.backward(",
        f"{{site}}/torch/autograd/__init__.py|backward|{'_engine_run_backward(' if engine else tail}",
        *engine,
    ]


def forward_frames(job: Job) -> list[str]:
    """A training step that enters DDP's forward."""
    passed = "*args, **kwargs" if job.torch >= (2, 0) else "*input, **kwargs"
    frames = [
        *main_frames(job),
        f"{{dir}}/{job.script}|train_step|output = model(images)",
        f"{{site}}/torch/nn/modules/module.py|_call_impl|return forward_call({passed})",
    ]
    place = "{site}/torch/nn/parallel/distributed.py"
    rebuild = "if torch.is_grad_enabled() and self.reducer._rebuild_buckets():"
    if job.torch >= (2, 0):
        frames.append(f"{place}|forward|inputs, kwargs = self._pre_forward(*inputs, **kwargs)")
        return [*frames, f"{place}|_pre_forward|{rebuild}"]
    return [*frames, f"{place}|forward|{rebuild}"]


def c10_stack(rng: random.Random, job: Job, where: str, source: str, functions: Sequence[str]) -> list[str]:
    """`Exception raised from …` and C++ frames, ended by an empty line as c10 prints it."""
    lines = [f"Exception raised from {where} at {source} (most recent call first):"]
    error = "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x{:x} (0x7f{} in {}/torch/lib/libc10.so)"
    lines.append(error.format(rng.choice([0x57, 0x96, 0x98, 0x80]), hexa(rng, 10), job.site))
    for i, function in enumerate(functions, 1):
        place = f"{job.site}/torch/lib/libtorch_cuda.so"
        lines.append(f"frame #{i}: {function} + 0x{rng.randrange(16, 4000):x} (0x7f{hexa(rng, 10)} in {place})")
    n = len(functions) + 1
    cxx = rng.choice(["/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/opt/conda/bin/../lib/libstdc++.so.6"])
    libc = rng.choice(["/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libpthread.so.0"])
    return [
        *lines,
        f"frame #{n}: <unknown function> + 0xdc253 (0x7f{hexa(rng, 10)} in {cxx})",
        f"frame #{n + 1}: <unknown function> + 0x94ac3 (0x7f{hexa(rng, 10)} in {libc})",
        f"frame #{n + 2}: clone + 0x44 (0x7f{hexa(rng, 10)} in {libc})",
        "",
    ]
