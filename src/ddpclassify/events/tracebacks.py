"""Pull tracebacks out of a stream of lines, also where several processes write into each other.

One `Assembler` serves one stream (`Line.source`). A stream that bears a rank holds one process; the stream of unmarked
lines may hold many: then several tracebacks are open at once, a frame goes to the one that was written to last, and an
unindented ``Type: message`` closes it. With equal tracebacks it does not matter which is which: their closings count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ddpclassify.patterns import lazy
from ddpclassify.types import Event, Frame, Line

_HEADER = lazy(r"(?P<original>Original )?(?:Exception Group )?Traceback \(most recent call last\)")
_FRAME = lazy(r'^\s*(?:>\s*)?File "(?P<path>.+?)", line (?P<line>\d{1,9})(?:,? in (?P<function>.*\S))?\s*$')
_RICH_FRAME = lazy(r"^(?P<path>(?:[A-Za-z]:)?[\w./\\~<>@+-]+):(?P<line>\d{1,9}) in (?P<function>\S+)$")
_GROUP = lazy(r"^\s*(?:[|+]\s?|\+-\+-+ \d+ -+)+")
_NAMED = (
    r"(?:Error|Exception|Interrupt|Exit|Warning|Failure|Fault"
    r"|Timeout|Iteration|Refused|Exceeded|Died|Closed|Crashed|NotFound|Mismatch)"
)
_TYPE = lazy(
    rf"^(?P<type>(?:[A-Za-z_]\w{{0,99}}\.){{0,20}}[A-Za-z_]\w{{0,99}}?{_NAMED}\w{{0,99}}|(?:[a-z_]\w*\.)+(?:_?[A-Z]\w+|\w*error|timeout))(?::\s?(?P<message>.*)|\s*)$"
)
_ANY_TYPE = lazy(r"^(?P<type>_?[A-Z][A-Za-z]+|(?:[A-Za-z_]\w*\.)+\w+)(?:: (?P<message>.*)|:?\s*)$")
_GLUED = lazy(rf"^(?P<type>(?:[A-Za-z_]\w{{0,99}}\.){{0,20}}?[A-Z]\w{{0,99}}?{_NAMED})(?P=type)+(?P<message>:.*|)$")
_LINK = lazy(r"^(?P<during>During handling of the above exception)|^The above exception was the direct cause")
_LIBRARY = lazy(
    r"(?:site|dist)-packages[/\\]|[/\\]lib[/\\]python\d|^<(?!stdin)|[/\\](?:torch|transformers|accelerate|deepspeed|lightning|pytorch_lightning"
    r"|multiprocessing|ray|importlib|runpy\.py|threading\.py|subprocess\.py)[/\\.]|\\lib\\|[/\\]bin[/\\][\w-]+$|^/usr/lib|(?:ana|mini)conda\d?/lib"
)
_MORE = 14  # lines kept of a multi-line message


def is_header(text: str) -> bool:
    """Whether a line opens a traceback."""
    return "Traceback (most" in text and _HEADER.search(text) is not None


@dataclass
class _Open:
    header: Line | None
    frames: list[Frame] = field(default_factory=list)
    first: Line | None = None
    touched: int = 0
    rich: bool = False
    link: str = ""
    rank: int | None = None


class Assembler:
    """Takes a stream's lines one by one; `feed` says whether the line belonged to a traceback."""

    def __init__(self) -> None:
        self.open: list[_Open] = []
        self.last: Event | None = None  # the exception closed last, whose message may go on
        self.more = 0
        self.linked = ""
        self.section_rank: int | None = None  # "-- Process 2 terminated with the following error:" and the like
        self.clock = 0
        self.closed: list[Event] = []

    def feed(self, line: Line, text: str) -> bool:
        """Take one line.

        Returns
        -------
        True when the line was part of a traceback (closed ones are in `closed`, which the caller empties)
        """
        self.clock += 1
        if is_header(text):
            self._header(line, text)
            return True
        if self.open and self.open[-1].rich and self._rich(line, text):
            return True
        bare = _GROUP.sub("", text) if self.open and text.lstrip()[:1] in "|+" else text
        if (match := _FRAME.match(bare)) is not None:
            self._frame(line, match["path"], int(match["line"]), match["function"] or "")
            return True
        if self.open and self.open[-1].frames and _LINK.match(bare):  # its exception line was no known form
            cut = self._touched_last()
            self.open.remove(cut)
            self._close(line, cut, "", "", 1)
        if not self.open:
            return self._after(line, text)
        if not bare.strip():
            return True
        if bare[:2] == "  ":  # source lines, carets, "[Previous line repeated …]", loguru's values
            self._touched_last().touched = self.clock
            return True
        return self._closes(line, bare)

    def _header(self, line: Line, text: str) -> None:
        new = _Open(line, first=line, touched=self.clock, rich="─" in text or "╭" in text, rank=self.section_rank)
        if "Original Traceback" in text and self.last is not None:
            self.last.chained, new.link = "outer", "inner"
        elif self.linked and self.last is not None:
            self.last.chained, new.link = self.last.chained or "inner", "outer"
        self.linked = ""
        self.more = 0
        self.open.append(new)
        if len(self.open) > 512:
            del self.open[:256]

    def _frame(self, line: Line, path: str, number: int, function: str) -> None:
        entry = function in ("<module>", "_run_module_as_main")
        target = None
        if self.open:
            target = self._touched_last()
            if entry and target.frames:
                target = next((o for o in self.open if not o.frames and not o.rich), target)
        if target is None:
            target = _Open(None, first=line, rank=self.section_rank)
            self.open.append(target)
        target.touched = self.clock
        if len(target.frames) < 200:
            target.frames.append(Frame(path, number, function, not _LIBRARY.search(path)))

    def _touched_last(self) -> _Open:
        return max(self.open, key=lambda o: o.touched)

    def _closes(self, line: Line, text: str) -> bool:
        target = self._touched_last()
        near = self.clock - target.touched <= 2 and bool(target.frames)
        match = _GLUED.match(text)
        count = 1
        if match is not None:
            count = max(2, text.count(match["type"]))
            count = min(count, len([o for o in self.open if o.frames]) or 1)
        else:
            match = _TYPE.match(text) or (_ANY_TYPE.match(text) if near else None)
            if match is not None and match["type"] + ": " in (match["message"] or ""):  # two processes, one line
                count = text.count(match["type"] + ": ")
                text = text[: text.index(match["type"] + ": ", 1)]
                match = _TYPE.match(text) or match
        if match is None or not target.frames:
            return False
        message = (match["message"] or "").lstrip(": ")
        if count > 1 and match.re is _GLUED:
            half = len(message) // 2
            message = (
                message[:half].rstrip(": ") if message[:half].strip(": ") == message[half:].strip(": ") else message
            )
        for _ in range(count - 1):
            if len(self.open) > 1:
                self.open.remove(min(self.open, key=lambda o: o.touched))
        if target in self.open:
            self.open.remove(target)
        self._close(line, target, match["type"], message, count)
        return True

    def _close(self, line: Line, target: _Open, kind: str, message: str, count: int) -> None:
        event = Event(
            "traceback",
            "",
            line,
            message,
            exception=kind,
            frames=tuple(target.frames),
            first=target.first,
            chained=target.link,
            rank=line.rank if line.rank is not None else target.rank,
            count=count,
        )
        self.closed.append(event)
        self.last, self.more = event, _MORE

    def _rich(self, line: Line, text: str) -> bool:
        box = self.open[-1]
        inner = text.strip().strip("│").strip()
        if text.lstrip().startswith("╰"):
            box.rich = False
            box.touched = self.clock
            return True
        if match := _RICH_FRAME.match(inner):
            box.touched = self.clock
            box.frames.append(
                Frame(match["path"], int(match["line"]), match["function"], not _LIBRARY.search(match["path"]))
            )
            return True
        return "│" in text or not inner

    def _after(self, line: Line, text: str) -> bool:
        """A line outside any traceback: a link to the next one, or more of the last message."""
        if self.last is None:
            return False
        if match := _LINK.match(text):
            self.linked = "context" if match["during"] else "cause"
            self.more = 0
            return True
        if self.more and self.last.line.source == line.source:
            if not text.strip() or line.level or _TYPE.match(text):
                self.more = 0
                return False
            self.more -= 1
            self.last.more = (*self.last.more, line)
        return False

    def interrupt(self, line: Line) -> None:
        """Take back a line that turned out to be a statement of its own, and end the message before it."""
        if self.last is not None and self.last.more and self.last.more[-1] is line:
            self.last.more = self.last.more[:-1]
            self.more = 0

    def end(self) -> list[Event]:
        """Return tracebacks that the log cuts off, as events without an exception type."""
        cut = [o for o in self.open if o.frames]
        self.open = []
        return [
            Event(
                "cut_traceback",
                "",
                o.first,
                "",
                frames=tuple(o.frames),
                first=o.first,
                rank=o.first.rank if o.first.rank is not None else o.rank,
            )
            for o in cut
            if o.first is not None
        ]


def exception_line(text: str) -> re.Match[str] | None:
    """Match a bare ``Type: message`` line (no traceback around it in the log)."""
    return _GLUED.match(text) or _TYPE.match(text)
