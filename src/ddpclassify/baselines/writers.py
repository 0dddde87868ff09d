"""Who wrote a line: launcher and logger prefixes, and sections that a launcher prints on a rank's behalf."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ddpclassify.foreign import from_json

MAX_CHARS = 2000  # of a line that are looked at: bounds the time of every pattern
_MAX_PREFIXES = 7

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# Outermost forms of any launcher; tried in this order at the start of what remains, until none matches.
_FORMS: tuple[tuple[str, str], ...] = (
    ("time", r"\[?\d{4}-\d\d-\d\d[T ][\d:]{8}(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ |]\s?(?:std(?:out|err) [FP] )?"),
    ("syslog", r"\w{3} [ \d]\d [\d:]{8} [\w.-]+ \w+\[\d+\]: "),
    ("time", r"\w{3} \w{3} +\d+ [\d:]{8} \d{4}(?=\[)"),
    ("mpi", r"\[(?:prterun-[^\]@]+@)?\d+,(?:mpirank:)?(\d+)(?:,[^\]]*)?\]<std(?:out|err)>: ?"),
    ("global", r"\[rank(\d+)\]: ?"),
    ("global", r"\[(?:[\w.-]{1,30}\|)?rank[ =_]?(\d+)\]:? ?"),
    ("inner", r"\[(?:Rank|RANK) (\d+)\]:? ?"),  # may be a rank inside a group
    ("local", r"\[rank: (\d+)\] ?"),
    ("local", r"\[[a-z_]{3,}(\d+)\]:"),
    ("device", r"[\w.-]{1,253}:\d+:\d+ \[(\d+)\] "),
    ("ray", r"\((?:\w+ )?pid=(\d+)(?:, ip=[\d.]+)?\) "),
    ("tag", r"\((?:raylet|autoscaler|TrainController)[^)]{0,40}\) "),
    ("cpp", r"\[[FEWI](?:\d{3,4} [\d:.]+)? ?[\w./]+:\d+\] ?"),
    ("glog", r"[EFWI]\d{4} [\d:.]+ \d+ [\w/.-]+:\d+\] ?(?:\[\d+/\d+\] )?"),
    ("inner", r"\[PG (?:ID|GUID)? ?[^\]]{0,60}?Rank (\d+)\] ?"),
    ("task", r"\s{0,3}(\d{1,4}): "),
    ("bracket", r"\[(\d{1,4})\] "),
    ("pod", r"\[pod/[^\]\s]{1,120}\] |[a-z][a-z0-9-]{0,252}-\d+ pytorch "),
    ("host", r"(?:[a-z][a-z0-9.-]{0,252}\d|[a-z][a-z0-9-]{0,252}-\d+)(?::| +\|) "),
)
_FORM = re.compile("|".join(f"(?P<{kind}_{i}>{form})" for i, (kind, form) in enumerate(_FORMS)))
_NUMBERED = frozenset(kind for kind, form in _FORMS if r"(\d" in form)
_NAMING = frozenset({"host", "pod"})  # no number, but they tell streams apart

# A launcher's report in a rank's name: what follows it unprefixed is that rank's.
_SECTION = re.compile(
    r"-- Process (?P<local>\d+) terminated with the following error"
    r"|-+Begin global rank (?P<a>\d+) |\[Rank (?P<b>\d+)[\d, ]* Error Snippet\]|^\s*rank +: (?P<c>\d+) \(local_rank"
)
_SECTION_END = re.compile(r"^-+End global rank|^={10,}|^\*{10,}")
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_LOGGED = re.compile(r"\b(?:ERROR|WARNING|WARN|CRITICAL|warning)\b|\b(?i:caught|failed)\b|due to:")


@dataclass(slots=True)
class Line:
    """A line without its prefixes. `frames` is filled where the line closes a traceback."""

    number: int
    raw: str
    text: str
    marks: dict[str, int]  # kind of prefix → its number
    stream: str
    frames: str = ""
    chained: bool = False  # raised while another exception was handled
    logged: bool = False  # a logger printed it: the process may have gone on
    preface: str = ""  # the line before that traceback
    in_section: bool = False


@dataclass(slots=True)
class _Stream:
    frames: list[str] = field(default_factory=list)
    open: bool = False
    chain: bool = False
    chained: bool = False
    logged: bool = False
    closed: bool = False  # the last line closed a traceback
    preface: str = ""
    last: str = ""


@dataclass
class Writers:
    """Attributes lines one by one, in the order of the log."""

    streams: dict[str, _Stream] = field(default_factory=dict)
    section: dict[str, dict[str, int]] = field(default_factory=dict)

    def read(self, number: int, raw: str) -> list[Line]:
        """Return the pieces of a line (progress bars put carriage returns between them)."""
        if raw.startswith("{"):
            raw = _shipped(raw)
        pieces = [piece for piece in raw.split("\r") if piece.strip()]
        return [self._read(number, piece[:MAX_CHARS]) for piece in pieces[-4:]]

    def _read(self, number: int, raw: str) -> Line:
        text, marks, stream = peel(raw)
        self._follow_section(text, stream)
        inside = not marks and stream in self.section
        line = Line(number, raw, text, self.section[stream] if inside else marks, stream, in_section=inside)
        self._follow_traceback(line)
        return line

    def _follow_section(self, text: str, stream: str) -> None:
        if found := _SECTION.search(text):
            kind = "local" if found["local"] else "global"
            self.section[stream] = {kind: int(found["local"] or found["a"] or found["b"] or found["c"])}
        elif stream in self.section and _SECTION_END.match(text):
            del self.section[stream]

    def _follow_traceback(self, line: Line) -> None:
        state = self.streams.setdefault(line.stream, _Stream())
        text = line.text
        if "Traceback (most recent call last)" in text:
            state.open, state.frames = True, []
            state.chained, state.chain = state.chain, False
            if "Original Traceback" not in text:  # a loader worker's, inside its parent's
                state.preface = state.last
                state.logged = bool(_LOGGED.search(state.last) or _LOGGED.search(text))
        elif text.lstrip().startswith(_CHAIN):
            state.chain = True
        elif state.open and text.startswith((" ", "\t", "│", "|")):
            if len(state.frames) < 80:
                state.frames.append(text)
        elif state.open and text.strip():
            line.frames, line.chained, line.logged = "\n".join(state.frames), state.chained, state.logged
            line.preface = state.preface
            state.open = False
        elif state.last.endswith(":") and state.closed:  # the rest of a message
            line.frames, line.logged, line.preface = "\n".join(state.frames), state.logged, state.preface
        state.closed = bool(line.frames)
        if text.strip():
            state.last = text


def _shipped(raw: str) -> str:
    """Return the text inside a log shipper's JSON line, or the line itself."""
    try:
        row = from_json(raw[: 2 * MAX_CHARS])
    except ValueError:
        return raw
    if not isinstance(row, dict):
        return raw
    return next((str(row[key]) for key in ("log", "message", "msg") if key in row), raw)


def peel(raw: str) -> tuple[str, dict[str, int], str]:
    """Return a line without prefixes, the numbers they carry, and a key of the stream it belongs to.

    >>> peel("[default3]:[rank11]: ValueError: x")
    ('ValueError: x', {'local': 3, 'global': 11}, '[default3]:[rank11]: ')
    """
    text = _ANSI.sub("", raw) if "\x1b" in raw else raw
    text = text.rstrip("\n")
    marks: dict[str, int] = {}
    names: list[str] = []
    for _ in range(_MAX_PREFIXES):
        found = _FORM.match(text)
        if not found or not found.lastgroup or found.lastindex is None:
            break
        kind = found.lastgroup.rsplit("_", 1)[0]
        if kind in _NUMBERED:
            marks[kind] = int(found[found.lastindex + 1])  # the only group inside the form's own
        if kind in _NUMBERED or kind in _NAMING:
            names.append(found.group())
        text = text[found.end() :]
    return text, marks, "".join(names)
