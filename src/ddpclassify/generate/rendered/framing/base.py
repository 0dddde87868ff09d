"""What every launcher's framing is made of: clocks, log heads, tags, and the order in which writes reach the log."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ..script import AGENT, SYSTEM, Job, Say, Script
from .rich import boxed

SIGNALS = {
    1: ("SIGHUP", "Hangup"),
    2: ("SIGINT", "Interrupt"),
    4: ("SIGILL", "Illegal instruction"),
    6: ("SIGABRT", "Aborted"),
    7: ("SIGBUS", "Bus error"),
    8: ("SIGFPE", "Floating point exception"),
    9: ("SIGKILL", "Killed"),
    11: ("SIGSEGV", "Segmentation fault"),
    15: ("SIGTERM", "Terminated"),
}
"""Names and descriptions of signals by number."""

RANK, LOCAL, NODE = "rank", "local", "node"
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Line:
    """A line of the finished log with what the renderer knows about it."""

    text: str
    evidence: bool = False
    rank: int | None = None  # the global rank that a reader can tell this line belongs to
    names: frozenset[int] = frozenset()  # ranks the text reports as failed
    maps: frozenset[int] = frozenset()  # ranks whose pid the text tells
    node: int = 0
    who: int = SYSTEM
    t: float = 0.0


@dataclass(frozen=True)
class Death:
    """How a process ended: by its own fault, as an echo of another's, or as a victim of the launcher."""

    rank: int
    t: float
    code: int
    cause: str = "own"


@dataclass(frozen=True)
class Clock:
    """Wall-clock time of a job that started at `epoch`."""

    epoch: datetime

    def at(self, t: float) -> datetime:
        return self.epoch + timedelta(seconds=t)

    def text(self, t: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
        return self.at(t).strftime(form)

    def millis(self, t: float, separator: str = ",") -> str:
        moment = self.at(t)
        return f"{moment:%Y-%m-%d %H:%M:%S}{separator}{moment.microsecond // 1000:03d}"


@dataclass(frozen=True)
class Logger:
    """How the training script's own logger heads its lines."""

    form: str
    ranked: bool = False

    def line(self, clock: Clock, say: Say) -> str:
        if "{{" in self.form and "\n" in say.text:  # a JSON line would fold the message into one
            return f"{say.text}"
        level = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL", "D": "DEBUG"}.get(say.level, "INFO")
        return self.form.format(
            time=clock.millis(say.t), dot=clock.millis(say.t, "."), short=clock.text(say.t, "%H:%M:%S"),
            slashed=clock.text(say.t, "%m/%d %H:%M:%S"), level=level, low=level.lower(), rank=max(say.who, 0),
            text=say.text,
        )  # fmt: skip


LOGGERS = (
    Logger("{text}"),
    Logger("{level}:__main__:{text}"),
    Logger("{time} - __main__ - {level} - {text}"),
    Logger("{time} {level} {text}"),
    Logger("[{time}] [{level}] {text}"),
    Logger("{slashed} - mmengine - {level} - {text}"),
    Logger("[{time}][train][{level}] - {text}"),
    Logger("{dot} | {level: <8} | __main__:main:214 - {text}"),
    Logger("[{short}] {level:<8} {text}"),
    Logger("{time} | {level} | trainer | {text}"),
    Logger("[{level}|trainer.py:1812] {time} >> {text}"),
    Logger("[{time}][{level}][rank{rank}] {text}", True),
    Logger("{time} [rank {rank}] {level}: {text}", True),
    Logger("[Rank {rank}] {text}", True),
    Logger("[rank={rank}] {time} {level} {text}", True),
    Logger("{time} - root - {level} - [RANK {rank}] {text}", True),
    Logger("{short} R{rank} {low}: {text}", True),
    Logger("[GPU{rank}] {text}"),
    Logger('{{"ts": "{dot}", "level": "{low}", "rank": {rank}, "msg": "{text}"}}', True),
)
"""Heads of common training logs; `GPU` is an index on the node, so no global rank."""


class Launcher:
    """A launcher's part in a log. The defaults describe plain processes whose output goes straight to the file.

    Subclasses draw their variant (tags, wording of an era) once in `__init__` and then answer for a whole log.
    """

    kill_lag: tuple[float, float] = (0.1, 0.4)  # from the first death seen to the end of its siblings
    kills_all = False  # ends the other nodes' processes too
    kills = True
    cascade: float | None = None  # seconds after which the end of one node's launcher ends the other nodes
    buffered = 0.0  # probability that Python's stdout is block-buffered
    gather = "merge"  # "concat": one node's log after the other
    prepares = False  # its opening comes whole, however early the script fails
    shows_one = False  # of several failing ranks, the log shows one

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        self.rng, self.job, self.clock = rng, job, clock

    def tag(self, say: Say) -> tuple[str, frozenset[str]]:
        """Prefix of every line of a write, and which of RANK, LOCAL, NODE it tells."""
        return "", NOTHING

    def opening(self) -> list[Say]:
        """Lines before the script runs."""
        return []

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        """Lines that report the deaths, in the launcher's order."""
        return []

    def closing(self, t: float) -> list[Say]:
        """Lines after a clean end at `t`."""
        return []

    def rewrite(self, says: list[Say], script: Script, deaths: Sequence[Death], writer: Writer) -> list[Say]:
        """Last word on what the log shows: some launchers hide or move what processes print."""
        return says

    def node_of(self, say: Say) -> int:
        return say.node if say.who < 0 else say.who // self.job.per_node


@dataclass
class Writer:
    """Turns says into lines: heads of the era, tags, torn and late writes, progress bars."""

    rng: random.Random
    job: Job
    clock: Clock
    launcher: Launcher
    logger: Logger
    in_group: bool
    torn: bool = field(init=False)
    late: bool = field(init=False)

    boxes: bool = field(init=False)

    def __post_init__(self) -> None:
        self.boxes = self.rng.random() < 0.03
        self.torn = self.rng.random() < 0.4
        self.late = self.rng.random() < self.launcher.buffered

    def lines(self, says: Iterable[Say], deaths: Sequence[Death]) -> list[Line]:
        """Order the writes as they reach the log and split them into lines."""
        writes = [write for say in says for write in self._writes(say)]
        if self.late:
            writes = self._delay_stdout(writes, {death.rank: death for death in deaths})
        writes.sort(key=lambda write: write[0])
        if self.launcher.gather == "concat" and len(self.job.hosts) > 1:
            writes.sort(key=lambda write: self.launcher.node_of(write[1]))
            return list(self._parted(self._joined(writes)))
        return list(self._joined(writes))

    def _parted(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Node logs put together, often with tail's heads between them."""
        heads, node = self.rng.random() < 0.5, -1
        for line in lines:
            if heads and line.node != node:
                node = line.node
                yield Line(f"==> {self.job.hosts[node]}.log <==", node=node)
            yield line

    def _writes(self, say: Say) -> Iterator[tuple[float, Say, frozenset[str]]]:
        """A say with its head; a traceback without rank prefix falls into several writes."""
        marked, knows = self.headed(say)
        if say.kind == "traceback" and RANK not in knows and self.torn:
            t, spacing = say.t, self.rng.uniform(0.00005, 0.0008)
            for piece in torn_pieces(marked):
                t += self.rng.uniform(0, 2 * spacing)
                yield t, replace(piece, t=t), knows
        else:
            yield say.t, marked, knows

    def headed(self, say: Say) -> tuple[Say, frozenset[str]]:
        """A say as its kind heads it, and what that head tells."""
        job, torch = self.job, self.job.torch
        if self.boxes and say.kind == "traceback" and "\n  File " in say.text:
            say = boxed(say)
        ranked = self.in_group and say.who >= 0
        if say.kind == "traceback" and ranked and torch >= (2, 3):
            mark = f"[rank{say.who}]: "
            text = "\n".join(mark + line if line else "" for line in say.text.split("\n"))
            return replace(say, text=text), frozenset({RANK})
        if say.kind == "c10":
            # Sockets connect before the group exists.
            ranked = ranked and not say.origin.startswith("socket.cpp")
            text = c10_head(self.rng, self.clock, torch, say, ranked) + say.text
            return replace(say, text=text), frozenset({RANK}) if ranked and torch >= (2, 2) else NOTHING
        if say.kind == "nccl":
            text = nccl_line(job, self.clock, say)
            first = text.startswith("\n")
            return replace(say, text=text, evidence=shifted(say, first)), (
                frozenset({LOCAL, NODE}) if job.cuda_visible_all else NOTHING
            )
        if say.kind == "torchlog":
            head = torch_log_head(job, self.clock, say, ranked)
            text = "\n".join(head + line for line in say.text.split("\n"))
            return replace(say, text=text), frozenset({RANK}) if ranked and torch >= (2, 1) else NOTHING
        if say.kind == "log":
            return replace(say, text=self.logger.line(self.clock, say)), (
                frozenset({RANK}) if self.logger.ranked else NOTHING
            )
        return say, NOTHING

    def _delay_stdout(
        self, writes: list[tuple[float, Say, frozenset[str]]], deaths: dict[int, Death]
    ) -> list[tuple[float, Say, frozenset[str]]]:
        """Hold each rank's stdout until 8 KiB are full or it exits; lose it when the process is killed."""
        kept = [write for write in writes if write[1].stream != "stdout" or write[1].who < 0]
        last = max((write[0] for write in writes), default=0.0)
        for rank in range(self.job.world_size):
            held: list[tuple[float, Say, frozenset[str]]] = []
            size = 0
            for write in sorted(
                (w for w in writes if w[1].stream == "stdout" and w[1].who == rank), key=lambda w: w[0]
            ):
                held.append(write)
                size += len(write[1].text) + 1
                if size > 8192:
                    kept += [(write[0], say, knows) for _, say, knows in held]
                    held, size = [], 0
            death = deaths.get(rank)
            if death is None or death.code >= 0:
                at = last + 0.001 if death is None else death.t
                kept += [(at, say, knows) for _, say, knows in held]
        return kept

    def _joined(self, writes: list[tuple[float, Say, frozenset[str]]]) -> Iterator[Line]:
        started = ""  # a progress bar leaves its line open for whoever writes next
        for t, say, head_knows in writes:
            prefix, tag_knows = self.launcher.tag(say)
            knows = head_knows | tag_knows
            node = self.launcher.node_of(say)
            known = RANK in knows or (LOCAL in knows and (NODE in knows or len(self.job.hosts) == 1))
            rank = say.who if say.who >= 0 and known else None
            if say.kind == "bar" and not prefix:
                started += "\r" + say.text
                continue
            for offset, text in enumerate(say.text.split("\n")):
                yield Line(
                    started + prefix + text, offset in say.evidence, rank,
                    frozenset(say.names), frozenset(say.maps), node, say.who, t,
                )  # fmt: skip
                started = ""
        if started:
            yield Line(started)


def torn_pieces(say: Say) -> Iterator[Say]:
    """Split a traceback into the writes Python makes: head, a frame with its source lines each, the message."""
    lines = say.text.split("\n")
    starts = [0]
    for number, line in enumerate(lines[1:], 1):
        opens = line.startswith("  File ") or (not line.startswith(" ") and lines[number - 1].startswith(" "))
        if opens:
            starts.append(number)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        evidence = tuple(offset - start for offset in say.evidence if start <= offset < end)
        yield replace(say, text="\n".join(lines[start:end]), evidence=evidence)


def c10_head(rng: random.Random, clock: Clock, torch: tuple[int, int], say: Say, ranked: bool) -> str:
    """Head of a c10 log line in a release's form."""
    origin = say.origin or "ProcessGroupNCCL.cpp:607"
    rank = f"[rank{say.who}]:" if ranked and torch >= (2, 2) else ""
    if torch < (2, 4):
        return f"{rank}[{say.level} {origin}] "
    moment = clock.at(say.t)
    # The nine digits come from the monotonic clock, not from the wall second.
    return f"{rank}[{say.level}{moment.month}{moment.day:02d} {moment:%H:%M:%S}.{rng.randrange(10**9):09d} {origin}] "


def torch_log_head(job: Job, clock: Clock, say: Say, ranked: bool) -> str:
    """Head of a line of torch's Python loggers; `origin` is the file below site-packages."""
    rank = f"[rank{say.who}]:" if ranked and job.torch >= (2, 1) else ""
    if job.torch < (2, 3):
        module = say.origin.split(".py")[0].replace("/", ".")
        return f"{rank}[{clock.millis(say.t)}] {module}: [WARNING] "
    moment = clock.at(say.t)
    micros = f"{moment:%m%d %H:%M:%S}.{moment.microsecond // 1000:03d}000"
    return f"{rank}{say.level}{micros} {job.pids[max(say.who, 0)]} {say.origin}] "


def nccl_line(job: Job, clock: Clock, say: Say) -> str:
    """A line of NCCL's own log, warnings after their empty line."""
    rank = max(say.who, 0)
    device = job.local(rank) if job.cuda_visible_all else 0
    origin = f"{say.origin} " if say.origin else ""
    pid = job.pids[rank]
    line = f"{job.host(rank)}:{pid}:{pid + 70 + 3 * device} [{device}] {origin}{say.text}"
    if "NCCL WARN" not in say.text:
        return line
    stamp = f"[{clock.text(say.t)}] " if job.torch >= (2, 7) else ""
    return f"\n{stamp}{line}"


def shifted(say: Say, first: int) -> tuple[int, ...]:
    """Evidence offsets of a say whose text starts at line `first` of a longer text."""
    return tuple(offset + first for offset in say.evidence)


def quote(who: int, t: float, before: str, says: Sequence[Say], after: str = "", **fields: object) -> Say:
    """One write that quotes other says between two texts, evidence marks included."""
    lines = before.split("\n") if before else []
    evidence: list[int] = []
    for say in says:
        evidence += shifted(say, len(lines))
        lines += say.text.split("\n")
    if after:
        lines += after.split("\n")
    return replace(Say(who, t, "\n".join(lines), evidence=tuple(evidence)), **fields)  # type: ignore[arg-type]


def agent(t: float, text: str, node: int = 0, **fields: object) -> Say:
    """A write of a node's launching process."""
    return replace(Say(AGENT, t, text, node=node), **fields)  # type: ignore[arg-type]


def first_by_node(job: Job, deaths: Iterable[Death]) -> dict[int, list[Death]]:
    """Deaths of each node in order of time."""
    nodes: dict[int, list[Death]] = {}
    for death in sorted(deaths, key=lambda death: (death.t, death.rank)):
        nodes.setdefault(death.rank // job.per_node, []).append(death)
    return nodes


def blamed(script: Script, death: Death | None) -> bool:
    """Whether a death is the failure itself rather than an echo of it."""
    culprit = script.scope != "ranks" or (death is not None and death.rank in script.culprit_ranks)
    return death is not None and death.cause == "own" and culprit


def told_by_code(culprits: Sequence[int], failed: Sequence[Death]) -> tuple[int, ...]:
    """Culprits that a list of failures gives away: nobody else in it ended the same way."""
    codes = {death.code for death in failed if death.rank in culprits}
    listed = {death.rank for death in failed if death.code in codes}
    return tuple(sorted(listed)) if listed and listed <= set(culprits) else ()
