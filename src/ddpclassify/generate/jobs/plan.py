"""What to run: jobs drawn from a seed, the same for the same seed."""

from __future__ import annotations

import builtins
import fnmatch
import importlib.util
import random
import re
import shlex
import shutil
import subprocess
import symtable
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ddpclassify.generate.jobs.launchers import LAUNCHERS, Launcher
from ddpclassify.generate.jobs.workloads import WORKLOADS, Workload
from ddpclassify.tables import read_toml

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Fault:
    """A row of ``faults/<category>.toml``."""

    id: str
    category: str
    reason: str
    where: str
    evidence: str
    slot: str = ""
    code: str = ""
    workloads: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    args: str = ""
    act: str = ""
    victims: str = "any"  # "zero", "not zero"
    guard: bool = True  # put the code under a condition on the rank


@dataclass(frozen=True)
class Noise:
    """A row of ``noise.toml``."""

    text: str
    slot: str
    via: str = "say"


@dataclass(frozen=True)
class Remark:
    """A noise that a job makes: by which ranks, and at which step where it belongs to a step."""

    noise: Noise
    ranks: tuple[int, ...]
    step: int


@dataclass(frozen=True)
class JobPlan:
    """One job: what runs, how, with which fault on which rank, and the names it appears under."""

    number: int
    fault: Fault
    workload: str
    launcher: Launcher
    ranks: int
    victim: int
    some: tuple[int, ...]  # the ranks that share the fault, where neither all do nor one
    seed: int
    home: str
    host: str
    script: str
    log: str
    timeout: int
    remarks: tuple[Remark, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.number:05d}"


@cache
def faults() -> tuple[Fault, ...]:
    """Return the fault table: the rows of ``faults/<category>.toml``, as ``faults/README.md`` describes them."""
    return tuple(
        Fault(category=path.stem, **_frozen(row))
        for path in sorted((HERE / "faults").glob("*.toml"))
        for row in read_toml(path)["fault"]
    )


@cache
def noises() -> tuple[Noise, ...]:
    """Return the noise table."""
    return tuple(Noise(**row) for row in read_toml(HERE / "noise.toml")["noise"])


def _frozen(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def available(launcher: Launcher) -> bool:
    """Whether the launcher's program is installed, and ready where it has a service."""
    return installed_program(launcher) and (not launcher.ready or _answers(launcher.ready))


def installed_program(launcher: Launcher) -> bool:
    """Whether the launcher's program is installed."""
    return shutil.which(launcher.program) is not None or importlib.util.find_spec(launcher.program) is not None


@cache
def _answers(command: str) -> bool:
    """Whether a command succeeds soon; asked once, as it waits for a service that may be down."""
    try:
        return subprocess.run(shlex.split(command), capture_output=True, timeout=3).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def installed(workload: Workload) -> bool:
    """Whether the packages that a workload imports are installed."""
    return all(importlib.util.find_spec(package) is not None for package in workload.needs)


_HOMES = (
    "/home/{u}/projects/{p}",
    "/workspace/{p}",
    "/data/{u}/{p}",
    "/root/{p}",
    "/mnt/nfs/{u}/code/{p}",
    "/scratch/{u}/{p}",
)
_USERS = ("lena", "jzhao", "omar", "priya", "tkim", "sven", "mara", "dli", "yuki", "anton")
_PROJECTS = (
    "unet",
    "tiny-lm",
    "vit-small",
    "asr-ctc",
    "point-seg",
    "reward-model",
    "protein-lm",
    "rec-tower",
    "diffuser",
    "detr-lite",
)
_HOSTS = ("gpu-node-{n}", "node{n}", "dgx{n:02d}", "compute-{n:03d}", "ip-10-0-3-{n}", "worker-{n}", "cn{n:04d}")
_SCRIPTS = ("train.py", "main.py", "train_ddp.py", "run.py", "pretrain.py", "finetune.py", "launch_train.py")
_SLOTS_WITHOUT_RANK = ("import", "args", "setup", "model", "forward", "dataset", "item", "label", "collate", "batch")
_RANK_FROM_ENVIRONMENT = 'int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", 0)))'
_VIA = {
    "stderr": "import sys\nprint({text}, file=sys.stderr, flush=True)",
    "warn": "import warnings\nwarnings.warn({text})",
}
# How a workload reports a step; `rank`, `step`, `loss` are in scope.
LOGS = {
    "print": "print(f'step {step} loss {loss.item():.4f}', flush=True)",
    "rank": "print(f'[rank {rank}] step {step} loss {loss.item():.4f}', flush=True)",
    "zero": "if rank == 0: print(f'[{time.strftime(\"%Y-%m-%d %H:%M:%S\")}] iter {step} loss={loss.item():.3f} lr=5.0e-02', flush=True)",
    "json": "if rank == 0: print('{\"step\": %d, \"loss\": %.4f}' % (step, loss.item()), flush=True)",
    "bar": "if rank == 0: print(f'\\r{step}/24 [00:{step:02d}<00:24, 9.1it/s, loss={loss.item():.3f}]', end='', flush=True)",
    "buffered": "print('step', step, 'loss', loss.item())",
    "silent": "pass",
}  # fmt: skip


def make_plan(
    count: int,
    seed: int,
    fault_glob: str = "*",
    launcher_glob: str = "*",
    ranks: Sequence[int] = (2, 2, 3, 3, 4, 4, 6, 8),
) -> list[JobPlan]:
    """Draw `count` jobs, balanced over categories, then over their faults, then over launchers."""
    rng = random.Random(seed)
    chosen = [f for f in faults() if fnmatch.fnmatch(f.id, fault_glob)]
    if not chosen:
        raise ValueError(f"no fault fits {fault_glob!r}; --list shows all")
    launchers = [x for x in LAUNCHERS.values() if fnmatch.fnmatch(x.name, launcher_glob) and available(x)]
    if not launchers:
        raise ValueError(f"no launcher that can be used here fits {launcher_glob!r}; --list tells why")
    workloads = [w for w in WORKLOADS.values() if installed(w)]
    ways = {fault.id: _ways(fault, launchers, workloads) for fault in chosen}
    if not any(ways.values()):
        raise ValueError("no launcher that was asked for can start a job with one of these faults")
    by_category: dict[str, list[Fault]] = {}
    for fault in chosen:
        by_category.setdefault(fault.category, []).append(fault)
    queues = {category: rng.sample(rows, len(rows)) for category, rows in by_category.items()}
    uses: dict[str, float] = {}
    plan: list[JobPlan] = []
    while len(plan) < count:
        for category in rng.sample(sorted(queues), len(queues)):
            if len(plan) >= count:
                break
            fault = queues[category].pop(0)
            queues[category].append(fault)
            able = ways[fault.id]
            if not able:
                continue
            least = min(uses.get(name, 0.0) for name in able)
            launcher = LAUNCHERS[rng.choice([name for name in able if uses.get(name, 0.0) == least])]
            uses[launcher.name] = least + 1 / launcher.weight
            fitting = able[launcher.name]
            workload = rng.choices(fitting, [w.weight for w in fitting])[0]
            plan.append(_job(rng, len(plan), fault, workload.name, launcher, rng.choice(ranks)))
    return plan


def _ways(fault: Fault, launchers: list[Launcher], workloads: list[Workload]) -> dict[str, list[Workload]]:
    """Return the launchers that can start a job with the fault, each with the workloads that suit both."""
    able = [w for w in workloads if suits(fault, w)]
    return {
        x.name: fitting
        for x in launchers
        if (not fault.launchers or x.name in fault.launchers) and (fitting := [w for w in able if runs_under(w, x)])
    }


# Where a fault may strike some ranks and not the others: a host without the driver, more processes than devices.
_OF_SOME = frozenset({
    "build_error", "checkpoint_error", "code_error", "data_error", "dependency_error", "external_service", "gpu_environment",
    "host_oom", "launch_config", "network_error", "numerical_error", "resource_limit", "shm_exhausted", "storage_error",
})  # fmt: skip
_SOME = 0.15  # how often it then does


def _struck(rng: random.Random, fault: Fault, launcher: Launcher, ranks: int) -> tuple[int, ...]:
    """Draw several ranks for a fault that may strike so: all of one node, the last of a node, or any; mostly none."""
    apt = fault.category in _OF_SOME and fault.where in ("all", "one") and fault.slot and fault.guard and not fault.act
    if not apt or ranks < 3 or rng.random() >= _SOME:
        return ()
    first = (ranks + 1) // 2  # ranks of the first of two nodes
    if launcher.nodes == 2 and rng.random() < 0.7:
        return tuple(rng.choice((range(first), range(first, ranks))))
    if rng.random() < 0.6:
        return tuple(range(rng.randrange(1, ranks - 1), ranks))
    return tuple(sorted(rng.sample(range(ranks), rng.randrange(2, ranks))))


def _job(rng: random.Random, number: int, fault: Fault, workload: str, launcher: Launcher, ranks: int) -> JobPlan:
    victim = {"zero": 0, "not zero": rng.randrange(1, ranks)}.get(fault.victims, rng.randrange(ranks))
    if fault.where == "zero":
        victim = 0
    home = rng.choice(_HOMES).format(u=rng.choice(_USERS), p=rng.choice(_PROJECTS))
    some = _struck(rng, fault, launcher, ranks)
    return JobPlan(
        number, replace(fault, where="some") if some else fault, workload, launcher, ranks, victim, some, rng.randrange(1 << 30), home,
        rng.choice(_HOSTS).format(n=rng.randrange(1, 99)), rng.choice(_SCRIPTS), rng.choice(sorted(LOGS)), rng.choice((6, 8, 10)),
        _remarks(rng, fault, workload, ranks),
    )  # fmt: skip


def _remarks(rng: random.Random, fault: Fault, workload: str, ranks: int) -> tuple[Remark, ...]:
    """Draw no noise for half of the jobs, a few for the others; never what could pass for the fault's evidence."""
    if rng.random() < 0.5:
        return ()
    fitting = [
        noise for noise in noises()
        if _has_slot(workload, noise.slot) and not (fault.evidence and re.search(fault.evidence, noise.text))
    ]  # fmt: skip
    return tuple(
        Remark(noise, tuple(sorted(rng.sample(range(ranks), rng.randint(1, ranks)))), rng.randint(1, 6))
        for noise in rng.sample(fitting, min(len(fitting), rng.randint(1, 4)))
    )


def suits(fault: Fault, workload: Workload) -> bool:
    """Whether the fault can be put into the workload."""
    named = not fault.workloads or not {workload.name, *workload.like}.isdisjoint(fault.workloads)
    return named and _has_slot(workload.name, fault.slot) and not _lacks_names(fault, workload.name)


def _lacks_names(fault: Fault, workload: str) -> bool:
    """Whether the fault's code uses names that the workload does not have there, and so would show another fault."""
    if not fault.code or fault.reason == "undefined_name":
        return False
    place = re.compile(rf"^( *)# @{fault.slot}$", re.MULTILINE)
    text = place.sub(lambda m: _indented(_guarded(fault).replace("$V", "1"), m[0]), source(workload))
    try:
        return any(undefined(part) for part in files_of("", text).values())
    except SyntaxError:  # the fault itself
        return False


def undefined(text: str) -> set[str]:
    """Return the names that a module uses and nothing defines.

    Examples
    --------
    >>> undefined("import os\\ndef f(x):\\n    return os.path, x, y")
    {'y'}
    """
    tables = [symtable.symtable(text, "job", "exec")]
    known = {s.get_name() for s in tables[0].get_symbols() if s.is_assigned() or s.is_imported()} | set(dir(builtins))
    known |= {"__file__"}
    used = set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        top = table.get_type() == "module"
        used |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global())}
    return used - known


def runs_under(workload: Workload, launcher: Launcher) -> bool:
    """Whether the launcher can start the workload."""
    refused = any(fnmatch.fnmatch(launcher.name, pattern) for pattern in workload.not_under)
    return workload.name in (launcher.workloads or WORKLOADS) and not refused


@cache
def source(workload: str) -> str:
    """Return a workload's text."""
    return (HERE / "workloads" / f"{workload}.py").read_text("utf-8")


def _has_slot(workload: str, slot: str) -> bool:
    return not slot or f"# @{slot}\n" in source(workload)


def script_of(job: JobPlan, values: dict[str, Any]) -> str:
    """Return the job's script: the workload with the fault's code and the noise in their slots, without other slots."""
    out = []
    for line in source(job.workload).splitlines():
        if not line.strip().startswith("# @"):
            out.append(line)
            continue
        slot = line.strip().removeprefix("# @")
        if slot == "log":
            out.append(_indented(LOGS[job.log], line))
        out += [_indented(_noise_code(job, remark), line) for remark in job.remarks if remark.noise.slot == slot]
        if slot == job.fault.slot:
            out.append(_indented(_guarded(job.fault), line))
    text = "\n".join(out) + "\n"
    text = text.replace("timedelta(seconds=8)", f"timedelta(seconds={job.timeout})")
    for key, value in {"V": job.victim, "S": job.some, **values}.items():
        text = text.replace(f"${key}", str(value))
    return text


def files_of(script: str, text: str) -> dict[str, str]:
    """Return the files of a job by name: the script itself, and those that follow in its text under a mark."""
    main, *others = re.split(r"^# --- file: (\S+) ---\n", text, flags=re.MULTILINE)
    return {script: main, **dict(zip(others[::2], others[1::2], strict=True))}


def _noise_code(job: JobPlan, remark: Remark) -> str:
    noise = remark.noise
    ranks = "rank in " + repr(set(remark.ranks))
    when = f"{ranks} and step == {remark.step}" if noise.slot == "step" else ranks
    say = _VIA.get(noise.via, WORKLOADS[job.workload].say)
    text = ("f" if "{rank}" in noise.text else "") + repr(noise.text)
    return f"if {when}:\n" + _indented(say.replace("{text}", text), "    #")


def _guarded(fault: Fault) -> str:
    """The fault's code, under a condition on the rank where not all ranks have the fault."""
    if fault.where not in ("one", "zero", "some") or not fault.guard:
        return fault.code
    rank = _RANK_FROM_ENVIRONMENT if fault.slot in _SLOTS_WITHOUT_RANK else "rank"
    return f"if {rank} {'in $S' if fault.where == 'some' else '== $V'}:\n" + _indented(fault.code, "    #")


def _indented(code: str, line: str) -> str:
    """`code` with the indentation of `line`."""
    indent = line[: len(line) - len(line.lstrip())]
    return "\n".join(indent + part for part in code.split("\n"))
