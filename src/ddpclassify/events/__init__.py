"""Find what happened: tracebacks, known statements, error lines, progress, ends."""

from __future__ import annotations

from collections.abc import Iterator

from ddpclassify.events.statements import fields, match
from ddpclassify.events.tracebacks import Assembler, exception_line, is_header
from ddpclassify.foreign import from_json
from ddpclassify.patterns import lazy
from ddpclassify.read.decode import harmless
from ddpclassify.types import Attributed, Event, Events, Line

__all__ = ["extract"]

# These look at lines in lower case: without (?i) they take a fifth of the time, and every line passes here.
_PROGRESS = lazy(
    r"\bloss\b|it/s|s/it|samples/s|img/s|images/sec|tok(?:ens)?/s|lr[ =:]"
    r"|grad_norm|accuracy|\bacc\b|eta[ =:]|throughput"
)
_FINISHED = lazy(
    r"\btraining (?:is )?(?:complete|finished|done)|finished training|`trainer\.fit` stopped|exits successfully"
    r"|\btrain(?:ing)? completed|run (?:finished|completed)|all (?:ranks )?done\b|^done\.?$|job (?:finished|completed)"
    r"|successfully (?:completed|finished|exited)|(?:completed|finished|exited) successfully"
    r"|\b(?:finished|completed)[\"'.!)}\]]*$|saved final (?:model|checkpoint)|end of (?:training|run)"
)
_ENDS = ("complet", "finish", "done", "stopped", "exit", "saved final", "end of")  # one of them is in every such line
_CHECKPOINT = lazy(
    r"\b(?:sav(?:ed|ing)|wrote|writing)\b.{0,40}(?:checkpoint|ckpt|model|\.pt\b|\.pth\b|\.safetensors|state)"
)
_ALARM = lazy(
    r"\b(?:errors?|fail(?:ed|ure|s)?|fatal|cannot|can't|could not|couldn't|unable|refused|denied|not found|no such"
    r"|invalid|abort(?:ed|ing)?|lost|kill(?:ed|ing)|corrupt\w*|exception|timed? ?out|timeout|unhealthy|unreachable"
    r"|terminat\w+|cancel\w*|evict\w*|nan|inf|mismatch|missing|exceeded|insufficient|out of|not allowed|unsupported"
    r"|panic|shut(?:ting)? ?down|not ready|exit(?:ed)? (?:code|status|with)|signal|oom\w*|limit|full|expired|forbidden"
    r"|unauthori[sz]ed)\b"
)
# Where a line tells both ("epoch 1 step 300"), the step tells more.
_STEPS = (
    lazy(r"(?i)\b(?:global[_ ]?step|steps?|iter|iteration|it|batch)s?['\"]?\s?[:=\[#( ]\s?\[?\s*(?P<step>\d{1,9})\b"),
    lazy(r"(?P<step>\d{1,9})/\d{1,9} \["),
    lazy(r"(?i)\bepochs?['\"]?\s?[:=\[#( ]\s?\[?\s*(?P<step>\d{1,9})\b"),
)
_SECTION = lazy(
    r"^(?:-- )?Process (?P<a>\d{1,6}) terminated with the following error|\[Rank (?P<b>\d{1,6}) Error Snippet\]"
    r"|-Begin global rank (?P<c>\d{1,6}) STD|^Process SpawnProcess-(?P<d>\d{1,6}):"
)
_INDENTED = lazy(r"^\s{4,}\S")
_CODE = lazy(r"^\s+(?:raise|return|self\.|if|for|with|assert|[\w.]+\(|[\w.][\w., ]* = )")


def extract(log: Attributed) -> Events:
    """Turn attributed lines into events.

    Notes
    -----
    A line becomes at most one event. Lines inside tracebacks and known noise become none.
    """
    streams: dict[str, Assembler] = {}
    events: list[Event] = []
    progress: dict[int | None, tuple[int, int]] = {}
    finished: list[Line] = []
    checkpoints: list[Line] = []
    last_progress = 0
    attempt = 0
    for line, text in _unglued(log.lines):
        stream = streams.setdefault(line.source, Assembler())
        if (section := _SECTION.search(text)) is not None:
            index = next(int(v) for v in section.groups() if v is not None)
            stream.section_rank = index - 1 if section["d"] else index
        attempt = max(attempt, log.files[line.file].attempt or 0)
        consumed = stream.feed(line, text)
        if stream.closed:
            for closed in stream.closed:
                closed.attempt = log.files[line.file].attempt or attempt
            events += map(_named, stream.closed)
            stream.closed.clear()
        if consumed:
            continue
        event = _statement(line, text)
        if event is not None:
            if event.role == "noise":
                continue
            if event.role in ("cause", "teardown"):
                stream.interrupt(line)
            attempt += event.kind == "restart"
            event.attempt = log.files[line.file].attempt or attempt
            events.append(event)
            if event.role != "info":
                continue
        low = text.lower()
        if _PROGRESS.search(low) and (step := _step(text)) is not None:
            progress[line.rank] = (step, line.number)
            last_progress = max(last_progress, line.number)
        if any(word in low for word in _ENDS) and _FINISHED.search(low):
            finished.append(line)
        elif _CHECKPOINT.search(low):
            checkpoints.append(line)
    for stream in streams.values():
        events += map(_named, stream.end())
    for event in events:
        if event.kind == "traceback" and event.more and event.fields.get("statement") is None:
            _named(event)
    events.sort(key=lambda e: (e.line.file, e.line.number))
    failed = max((e.attempt for e in events if e.role not in ("info", "teardown")), default=0)
    return Events(log, tuple(events), progress, last_progress, tuple(finished), tuple(checkpoints), failed)


def _step(text: str) -> int | None:
    return next((int(found["step"]) for pattern in _STEPS if (found := pattern.search(text))), None)


def _unglued(lines: tuple[Line, ...]) -> Iterator[tuple[Line, str]]:
    """Yield (line, text), with what a shipper, an unflushed progress bar or a torn write put into one taken apart."""
    for line in lines:
        text = line.text
        if text.startswith("{") and '"py_callstack"' in text and (stack := _error_json(text)):
            text = stack
        if "\n" in text:
            for part in text.split("\n"):
                yield line, part
            continue
        at = text.find("Traceback (most recent call last):", 1)
        if (
            at > 0
            and not text[:at].strip(" +|>│╭─").endswith(("Original", "Group"))
            and is_header(text)
            and text[:at].strip(" +|>│╭─")
        ):
            yield line, text[:at]
            yield line, text[at:]
            continue
        yield line, text


def _error_json(text: str) -> str:
    """The call stack of torchrun's error file (``@record``)."""
    try:
        row = from_json(text)
    except ValueError:
        return ""
    message = row.get("message") if isinstance(row, dict) else None
    extra = message.get("extraInfo") if isinstance(message, dict) else None
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    return harmless(stack) if isinstance(stack, str) else ""


def _named(event: Event) -> Event:
    """Give an exception the role and fields of the statement that its message is, if it is one."""
    text = " ".join([event.exception + ": " + event.text, *(m.text for m in event.more)])[:4000]
    found = match(text)
    if found is not None and found[0].role != "noise":
        event.role = found[0].role
        event.fields = fields(found[1])
        event.fields["statement"] = found[0].kind
    return event


def _statement(line: Line, text: str) -> Event | None:
    found = match(text)
    if found is not None:
        row, groups = found
        return Event(row.kind, row.role, line, text.strip(), fields=fields(groups), rank=line.rank)
    if not text:
        return None
    if text[0] not in " \t" and (bare := exception_line(text)) is not None:
        message = (bare["message"] or "").lstrip(": ")
        return Event("exception", "", line, message, exception=bare["type"], rank=line.rank)
    if _ALARM.search(text.lower()) and not (_INDENTED.match(text) and _CODE.match(text)):
        return Event("error_line", "", line, text.strip(), rank=line.rank)
    return None
