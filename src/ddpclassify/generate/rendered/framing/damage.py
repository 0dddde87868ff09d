"""What happens to logs on the way to whoever reads them: cuts, filters, wrapping, shippers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..script import Job, Script
from .base import Clock, Line

Lines = list[Line]


@dataclass(frozen=True)
class Damage:
    """A way of damaging a log. `loses` tells whether lines can get lost."""

    weight: float
    apply: Callable[[random.Random, Lines, Job, Clock], Lines]
    loses: bool = True


def _marks(lines: Lines) -> list[int]:
    return [number for number, line in enumerate(lines) if line.evidence] or [len(lines) - 1]


def head_cut(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """The beginning is gone."""
    return lines[rng.randint(0, _marks(lines)[0]) :]


def tail_cut(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """The log stops in the middle of a line, some way after the cause."""
    end = rng.randint(_marks(lines)[-1], len(lines) - 1)
    last = lines[end]
    keep = len(last.text) if last.evidence else rng.randint(0, len(last.text))
    return [*lines[:end], replace(last, text=last.text[:keep])]


def tail_only(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """Somebody pasted the end."""
    return lines[-rng.randint(25, 90) :]


GREP = re.compile(
    r"error|exception|traceback|fail|abort|kill|signal|timeout|timed out|exitcode|raise |cannot|oom|warn", re.IGNORECASE
)


def grepped(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """Only lines with words of failure, sometimes with their neighbours."""
    around = rng.choice((0, 0, 1, 3))
    hits = {
        near
        for number, line in enumerate(lines)
        if GREP.search(line.text)
        for near in range(number - around, number + around + 1)
    }
    return [line for number, line in enumerate(lines) if number in hits]


def wrapped(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """A terminal's width became line ends."""
    width = rng.choice((80, 80, 100, 120, 132))
    return [
        replace(line, text=line.text[at : at + width], evidence=line.evidence and (at == 0 or len(line.text) - at > 20))
        for line in lines
        for at in range(0, max(len(line.text), 1), width)
    ]


def doubled(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """Two handlers or two collectors: each line twice."""
    return [line for line in lines for _ in range(2)]


def shipped(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """A collector's prefix or its JSON."""
    pod = f"{job.hosts[0]}-{rng.getrandbits(24):06x}"
    form = rng.choice(("iso", "iso-pod", "docker", "syslog", "json", "github"))

    def ship(line: Line) -> Line:
        moment = clock.at(line.t)
        text = line.text.replace("\r", "\\r") if form in ("docker", "json") else line.text
        stamped = {
            "iso": lambda: f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z {text}",
            "iso-pod": lambda: f"{moment:%Y-%m-%dT%H:%M:%SZ} {pod} {text}",
            "docker": lambda: json.dumps(
                {"log": text + "\n", "stream": "stderr", "time": f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z"},
                ensure_ascii=False,
            ),
            "syslog": lambda: f"{moment:%b %e %H:%M:%S} {job.hosts[line.node]} train[{job.pids[0]}]: {text}",
            "json": lambda: json.dumps(
                {"timestamp": f"{moment:%Y-%m-%dT%H:%M:%SZ}", "pod": pod, "message": text}, ensure_ascii=False
            ),
            "github": lambda: f"{moment:%Y-%m-%dT%H:%M:%S.%f}1Z {text}",
        }
        return replace(line, text=stamped[form]())

    return [ship(line) for line in lines]


def crlf(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """A Windows editor or a terminal recording."""
    return [replace(line, text=line.text + "\r") for line in lines]


def one_node(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """One node's file of a larger job."""
    node = lines[_marks(lines)[0]].node if rng.random() < 0.8 else rng.randrange(len(job.hosts))
    return [line for line in lines if line.node == node]


def only_rank0(rng: random.Random, lines: Lines, job: Job, clock: Clock) -> Lines:
    """The other ranks were never recorded."""
    return [line for line in lines if line.who <= 0]


DAMAGES: dict[str, Damage] = {
    "head_cut": Damage(4, head_cut),
    "tail_cut": Damage(4, tail_cut),
    "tail_only": Damage(5, tail_only),
    "grep": Damage(2, grepped),
    "wrapped": Damage(2, wrapped, loses=False),
    "doubled": Damage(1, doubled, loses=False),
    "shipper": Damage(4, shipped, loses=False),
    "crlf": Damage(2, crlf, loses=False),
    "one_node": Damage(3, one_node),
    "rank0_only": Damage(2, only_rank0),
}


def suitable(name: str, script: Script, job: Job) -> bool:
    """Whether a damage leaves this failure's label certain."""
    if script.silent and DAMAGES[name].loses:
        return False
    if name == "one_node":
        return len(job.hosts) > 1 and not (script.scope == "ranks" and not script.no_culprit_mark)
    if name == "rank0_only":
        return job.world_size > 1 and script.scope in ("all", "none", "launcher")
    return not (DAMAGES[name].loses and script.scope == "ranks" and not script.no_culprit_mark)


def damaged(rng: random.Random, lines: Lines, script: Script, job: Job, clock: Clock) -> tuple[str, Lines]:
    """Damage a log in a random suitable way; returns the name of what was done."""
    names = [name for name in DAMAGES if suitable(name, script, job)]
    name = rng.choices(names, weights=[DAMAGES[name].weight for name in names])[0]
    return name, DAMAGES[name].apply(rng, lines, job, clock)
