"""Renders a labelled corpus: template × job × launcher × noise × damage."""

from __future__ import annotations

import importlib
import json
import pkgutil
import random
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

from ddpclassify import __version__
from ddpclassify.corpus.check import tells_ranks
from ddpclassify.files import alone, whole_lines, write_whole
from ddpclassify.types import InputError

from . import noise
from .exceptions import load_rows
from .framing import make_launcher
from .framing.base import LOGGERS, Clock, Launcher, Line, Writer
from .framing.damage import damaged
from .framing.labels import who_failed
from .framing.peers import unfold
from .job import draw_job, start_of
from .script import AGENT, Fault, Job, Say, Script
from .stock.tables import LOOPS, Loop
from .stock.words import Fill

MAX_BYTES = 300_000
DAMAGE_RATE = 0.25
ATTEMPTS = 30


@dataclass(frozen=True)
class Template:
    """A fault with its identifier and what the job must be like."""

    name: str
    category: str
    fault: Fault
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    loop: Loop | None = None


@dataclass(frozen=True)
class Rendered:
    """A finished log and its label (without the path)."""

    text: str
    label: dict[str, Any]


def healthy(loop: Loop, reason: str) -> Fault:
    """A job without failure, at its end or still at work."""

    def fault(rng: random.Random, job: Job) -> Script:
        start = rng.uniform(15, 80)
        end = start + rng.choice((rng.uniform(5, 120), rng.uniform(100, 4000), rng.uniform(2000, 90000)))
        return Script("no_failure", reason, "none", (), start=start, fails_at=end, hang=reason == "running")

    return fault


@cache
def templates() -> dict[str, Template]:
    """All templates by name: healthy runs, data rows, and the scenarios of every module in `scenarios/`."""
    found: dict[str, Template] = {}
    here = Path(__file__).parent
    for loop in LOOPS:
        for reason in ("completed", "running"):
            name = f"healthy-{loop.name}-{reason}"
            found[name] = Template(name, "no_failure", healthy(loop, reason), LOOP_NEEDS.get(loop.name, {}), loop)
    for name, (category, fault, needs) in load_rows(here / "faults").items():
        found[name] = Template(name, category, fault, needs)
    for module in pkgutil.iter_modules([str(here / "scenarios")]):
        if module.name.startswith("_"):
            continue
        scenarios = importlib.import_module(f"{__package__}.scenarios.{module.name}")
        for name, (category, fault) in scenarios.SCENARIOS.items():
            if name in found:
                raise ValueError(f"template id {name!r} appears twice")
            found[name] = Template(name, category, fault, getattr(scenarios, "NEEDS", {}).get(name, {}))
    return found


LOOP_NEEDS: dict[str, dict[str, Sequence[str]]] = {
    "lightning-bar": {"launcher": ["lightning"]},
    "lightning-old": {"launcher": ["lightning"]},
    "ray-report": {"launcher": ["ray"]},
    "deepspeed": {"launcher": ["deepspeed"]},
    "composer": {"launcher": ["composer"]},
}


def told(rng: random.Random, template: Template) -> tuple[Job, Script] | None:
    """A job and the template's script for it, both meeting the template's needs."""
    needs = dict(template.needs)
    for _ in range(3):
        job = draw_job(rng, needs)
        if job is None:
            return None
        script = template.fault(rng, job)
        missing = {key: value for key, value in script.needs.items() if needs.get(key) != value}
        if not missing:
            return job, script
        needs |= missing
    return None


def render_log(rng: random.Random, template: Template) -> Rendered | None:
    """Render one log, or None when this drawing has no certain label.

    Parameters
    ----------
    rng
        Source of all randomness.
    template
        What happens.
    """
    story = told(rng, template)
    if story is None:
        return None
    job, script = story
    clock = Clock(start_of(job))
    launcher = make_launcher(rng, job, clock)
    lines = clean_lines(rng, job, script, launcher, clock, template.loop)
    damage = "none"
    verdict = who_failed(script, job, launcher, lines)
    for _ in range(3 if rng.random() < DAMAGE_RATE else 0):
        name, worse = damaged(rng, lines, script, job, clock)
        if certain(script, worse) and who_failed(script, job, launcher, worse) == verdict:
            damage, lines = name, worse
            break
    if not certain(script, lines):
        return None
    if verdict[0] == "ranks" and not tells_ranks(set(verdict[1]), (line.text for line in lines), job.world_size):
        return None
    # A log cut within its last line has no final line feed.
    text = "\n".join(line.text for line in lines) + ("" if damage == "tail_cut" else "\n")
    if len(text.encode()) > MAX_BYTES:
        return None
    label = {
        "category": script.category,
        "scope": verdict[0],
        "culprit_ranks": list(verdict[1]),
        "evidence_lines": [number for number, line in enumerate(lines, 1) if line.evidence],
        "reason": script.reason,
        "launcher": job.launcher,
        "backend": job.backend,
        "world_size": job.world_size,
        "provenance": "rendered",
        "template": template.name,
        "torch": f"{job.torch[0]}.{job.torch[1]}",
        "damage": damage,
    }
    return Rendered(text, label)


def certain(script: Script, lines: Sequence[Line]) -> bool:
    """Whether what is left still proves the failure (or, without one, is a log at all)."""
    return any(line.evidence for line in lines) or (script.category == "no_failure" and len(lines) > 2)


def clean_lines(
    rng: random.Random, job: Job, script: Script, launcher: Launcher, clock: Clock, loop: Loop | None = None
) -> list[Line]:
    """The undamaged log of a script."""
    fill = Fill(rng, job)
    says = noise.healthy_says(
        rng, job, clock, fill, script.start, script.fails_at, in_group=script.in_group, loop=loop,
        rich=script.category == "no_failure",
    )  # fmt: skip
    echoes, deaths = unfold(rng, job, script, launcher, clock, fill)
    says = [say for say in [*opening_says(launcher, script), *says] if alive(say, script)]
    says += [*script.says, *echoes]
    if script.category == "no_failure":
        if not script.hang:
            says += noise.finish_says(rng, job, fill, script.fails_at)
            says += launcher.closing(script.fails_at + 3)
    elif not script.hang:
        # A scenario about the launcher tells the launcher's end itself.
        told_already = script.scope == "launcher" and any(say.who == AGENT for say in script.says)
        says += [] if told_already else launcher.ending(script, deaths)
        says += noise.aftermath_says(rng, job, fill, deaths)
    writer = Writer(rng, job, clock, launcher, rng.choice(LOGGERS), script.in_group)
    return writer.lines(launcher.rewrite(says, script, deaths, writer), deaths)


def opening_says(launcher: Launcher, script: Script) -> list[Say]:
    """What the launcher prints first; one that prepares everything before the script starts has done so in time."""
    says = launcher.opening()
    if not launcher.prepares or script.scope == "launcher":
        return says
    last = max((say.t for say in says), default=0.0)
    scale = min(1.0, 0.9 * script.fails_at / (last + 0.1))
    return [replace(say, t=say.t * scale) for say in says]


def alive(say: Say, script: Script) -> bool:
    """Whether the healthy job could still write this."""
    return say.t < script.fails_at or script.category == "no_failure"


def plan(count: int, seed: int, categories: Sequence[str] | None = None, pattern: str = "*") -> list[str]:
    """Template of each log: categories in turn, within a category its templates in shuffled turn."""
    by_category: dict[str, list[str]] = {}
    for name, template in sorted(templates().items()):
        if (categories is None or template.category in categories) and fnmatchcase(name, pattern):
            by_category.setdefault(template.category, []).append(name)
    rng = random.Random(f"plan-{seed}")
    for names in by_category.values():
        rng.shuffle(names)
    order = sorted(by_category)
    turns = [divmod(number, len(order)) for number in range(count)] if order else []
    return [by_category[order[which]][turn % len(by_category[order[which]])] for turn, which in turns]


def render_one(job: tuple[int, str], seed: int) -> Rendered | None:
    """Render the log of a number: the same number, template and seed give the same bytes."""
    number, name = job
    for attempt in range(ATTEMPTS):
        rendered = render_log(random.Random(f"{seed}-{number}-{name}-{attempt}"), templates()[name])
        if rendered is not None:
            return rendered
    return None


def render_corpus(
    out: Path,
    count: int,
    seed: int,
    *,
    categories: Sequence[str] | None = None,
    pattern: str = "*",
    workers: int = 1,
) -> None:
    """Render a labelled corpus of logs, or what a killed run has left of it.

    Parameters
    ----------
    out
        Folder to write; `labels.jsonl` appears last, when all logs are there. `plan.txt` tells what it holds.
    count
        Number of logs, balanced over categories and, within a category, over templates.
    seed
        The same seed gives the same bytes, whatever the number of workers.
    categories
        Restrict to these categories.
    pattern
        Restrict to templates whose name fits this shell pattern.
    workers
        Number of processes.

    Raises
    ------
    InputError
        Another run writes to `out`, or it holds something else.
    """
    jobs = list(enumerate(plan(count, seed, categories, pattern)))
    told = f"rendered {__version__} count {count} seed {seed} categories {categories} pattern {pattern}\n"
    part, whole = out / "labels.jsonl.part", out / "labels.jsonl"
    with alone(out):
        if not (out / "plan.txt").exists() and not whole.exists():
            write_whole(out / "plan.txt", told)
        elif not (out / "plan.txt").exists() or (out / "plan.txt").read_text("utf-8") != told:
            raise InputError(f"{out}: holds another corpus (seed, options or version); give a new folder")
        if whole.exists():
            return
        (out / "logs").mkdir(exist_ok=True)
        labelled = whole_lines(part)
        done = int(Path(json.loads(labelled[-1])["log"]).stem) + 1 if labelled else 0
        work = partial(render_one, seed=seed)
        with part.open("a", encoding="utf-8") as labels:
            if workers > 1:
                with ProcessPoolExecutor(workers) as pool:
                    _write(out, labels, jobs[done:], pool.map(work, jobs[done:], chunksize=16))
            else:
                _write(out, labels, jobs[done:], map(work, jobs[done:]))
        part.replace(whole)


def _write(out: Path, labels: Any, jobs: Sequence[tuple[int, str]], results: Iterable[Rendered | None]) -> None:
    for (number, _), rendered in zip(jobs, results, strict=True):
        if rendered is None:
            continue
        path = f"logs/{number:06d}.log"
        (out / path).write_bytes(rendered.text.encode())
        labels.write(json.dumps({"log": path, **rendered.label}, ensure_ascii=False) + "\n")
