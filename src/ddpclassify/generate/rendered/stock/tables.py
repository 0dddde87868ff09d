"""Reads the tables of invented output that lie beside this module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpclassify.tables import read_toml

from ..script import Job

Version = tuple[int, int]


def table(name: str) -> dict[str, Any]:
    """Content of one of this folder's tables."""
    return read_toml(Path(__file__).with_name(f"{name}.toml"))


def version(text: str) -> Version:
    """Release from its text: ``"2.4"``."""
    major, minor = text.split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class Loop:
    """A style of progress line. `who`: rank 0, all ranks, or the last one (Megatron)."""

    name: str
    step: str
    kind: str = "raw"
    who: str = "zero"
    epoch: str = ""  # printed at the end of an epoch
    evaluation: str = ""
    start: str = ""
    stream: str = "stdout"


@dataclass(frozen=True)
class Harmless:
    """A line that sounds alarming: `when` start, middle or end; `who` zero, all, one rank or the agent."""

    when: str
    who: str
    text: str
    torch: tuple[str, ...] = ("1.0", "9.9")
    kind: str = "raw"
    level: str = "W"
    origin: str = ""
    stream: str = "stderr"
    backend: str = ""
    weight: float = 1.0

    def fits(self, job: Job) -> bool:
        """Whether a job of this release and backend prints it."""
        return version(self.torch[0]) <= job.torch <= version(self.torch[1]) and self.backend in ("", job.backend)


PHRASES = table("phrases")
LOOPS = tuple(Loop(**row) for row in table("loops")["loop"])
HARMLESS = tuple(Harmless(**row) for row in table("harmless")["line"])
CAUGHT: tuple[tuple[str, str], ...] = tuple((row["message"], row["body"]) for row in table("caught")["caught"])
