"""The plain types that all stages share.

Data flows one way: read → attribute to ranks → events → fold → features → model → diagnosis → report. Each stage
takes the types above its own in this file and returns those below.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

SCHEMA = "ddpclassify.diagnosis/1"


class InputError(Exception):
    """An input that can't be used: `str(error)` is one line that names it and the reason."""

    def __init__(self, message: str) -> None:
        # Names of files may hold line feeds and escapes.
        super().__init__("".join(c if c.isprintable() else "\ufffd" for c in message))


class SourceFile(NamedTuple):
    """One file of a job's log. The hints come from its path; `None` where the path says nothing."""

    name: str
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    attempt: int | None = None


class RawLine(NamedTuple):
    """A line picked by the scan: `number` counts line feeds from 1 in `files[file]`; control codes are removed."""

    file: int
    number: int
    text: str


class Excerpt(NamedTuple):
    """What the scan kept of one job's log: the lines that may matter and their surroundings, in order."""

    source: str
    files: tuple[SourceFile, ...]
    lines: tuple[RawLine, ...]
    n_lines: int
    n_bytes: int


@dataclass(slots=True)
class Line:
    """A line with its writer: `text` is what remains after all prefixes, `raw` what stood in the log.

    `rank` is the global rank, `local_rank` the index on the node, `time` seconds on an arbitrary common axis.
    `source` names the stream: lines of equal `source` come from one writer as far as the log tells.
    """

    file: int
    number: int
    raw: str
    text: str
    source: str = ""
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    time: float | None = None
    level: str = ""
    origin: str = ""  # the source file a logger names: "ProcessGroupNCCL.cpp", "api.py"


@dataclass(slots=True)
class JobFacts:
    """What the log says about the job as a whole."""

    world_size: int | None = None
    launchers: tuple[str, ...] = ()
    hosts: dict[str, set[int]] = field(default_factory=dict)  # host → global ranks on it
    pid_ranks: dict[tuple[str, int], int] = field(default_factory=dict)  # (host or "", pid) → global rank
    ranks_seen: set[int] = field(default_factory=set)
    local_only: bool = False  # ranks are known as local ranks of an unknown node


class Attributed(NamedTuple):
    """The excerpt's lines with their ranks."""

    source: str
    files: tuple[SourceFile, ...]
    lines: tuple[Line, ...]
    facts: JobFacts
    n_lines: int
    n_bytes: int


class Frame(NamedTuple):
    """One stack frame. `user` is false for the interpreter's, the framework's and installed packages' files."""

    path: str
    line: int
    function: str
    user: bool


@dataclass(slots=True)
class Event:
    """One thing that one process (or the launcher, or the machine) reports.

    `kind` is "traceback", "exception" (a bare `Type: message` line) or a row of the statement table; `role` is that
    table's opinion ("cause", "echo", "teardown", "info", "" for none), which the models take as a hint.
    """

    kind: str
    role: str
    line: Line  # the line that states it
    text: str  # exception message or statement, without prefixes
    more: tuple[Line, ...] = ()  # further lines of a multi-line message
    exception: str = ""
    frames: tuple[Frame, ...] = ()
    first: Line | None = None  # where the traceback begins, when not at `line`
    chained: str = ""  # "inner": something was raised while handling this; "outer": raised while handling another
    fields: dict[str, str] = field(default_factory=dict)
    rank: int | None = None
    count: int = 1
    attempt: int = 0  # of an elastic job: how often the workers had been restarted before


class Events(NamedTuple):
    """All events of a log in order, with what is known of progress."""

    log: Attributed
    events: tuple[Event, ...]
    progress: dict[int | None, tuple[int, int]]  # rank → (last step seen, line); key None: lines of no rank
    last_progress_line: int
    finished: tuple[Line, ...]  # end-of-training marks
    checkpoints: tuple[Line, ...]
    attempt: int = 0  # the last attempt in which something went wrong


@dataclass
class Failure:
    """Equal events folded: one failure with the ranks that report it."""

    signature: str
    kind: str
    role_hint: str
    exception: str
    message: str
    skeleton: str
    location: str
    events: list[Event] = field(default_factory=list)
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    count: int = 0
    unattributed: int = 0
    first_time: float | None = None
    recovered: bool = False  # training went on after the last report
    earlier: bool = False  # of an attempt before the last one that failed
    explanation: tuple[str, ...] = ()
    seen_in_healthy: bool | None = None  # None: no good run is known

    @property
    def first(self) -> Event:
        return self.events[0]


class Folded(NamedTuple):
    """A log as its distinct failures, in the order of their first line; `apart` are those that no model sees."""

    events: Events
    failures: tuple[Failure, ...]
    apart: tuple[Failure, ...] = ()


@dataclass
class Diagnosis:
    """The answer for one log; fields as in the JSON (`to_dict`)."""

    source: str
    lines: int
    bytes: int
    category: str
    confidence: float
    candidates: list[dict[str, Any]]
    reason: str | None
    origin: str
    retry: str
    scope: str
    culprit_ranks: list[int]
    culprit_confidence: float
    culprit_host: str | None
    world_size: int | None
    evidence: list[dict[str, Any]]
    failures: list[dict[str, Any]]
    advice: dict[str, Any]
    missing: list[str]
    progress: dict[str, Any]
    model: dict[str, Any]
    schema: str = SCHEMA
    explanation: dict[str, Any] | None = None  # only when asked for

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the contract (`schema` first)."""
        d = asdict(self)
        if self.explanation is None:
            del d["explanation"]
        return {"schema": d.pop("schema"), **d}

    def _repr_html_(self) -> str:
        from ddpclassify.page.card import card

        return card(self)
