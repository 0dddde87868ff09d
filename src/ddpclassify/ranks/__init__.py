"""Attribute every line to a rank, a node and a time, as far as the log allows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ddpclassify.foreign import from_json
from ddpclassify.ranks.clock import Clock
from ddpclassify.ranks.facts import attend, collect
from ddpclassify.ranks.forms import FORMS, Form, by_start, kind_of
from ddpclassify.read.decode import harmless
from ddpclassify.types import Attributed, Excerpt, Line, RawLine, SourceFile

__all__ = ["attribute", "believed", "json_body", "marked", "prefixes"]

Mark = tuple[Form, re.Match[str]]

_DEPTH = 10  # prefixes stacked on one line; more than any real stack
_SUPPORT = 0.3  # share of a file's lines that must bear a weak form before it is believed


def attribute(excerpt: Excerpt) -> Attributed:
    """Strip the prefixes of all lines and say who wrote them.

    Returns
    -------
    Attributed : one `Line` a kept line, in the same order, and the facts of the job
    """
    table = by_start()
    marks = marked(excerpt)
    weak = believed(excerpt, marks)
    clock = Clock()
    lines = [
        _parse(raw, excerpt.files[raw.file], found, table, weak[raw.file], clock)
        for raw, found in zip(excerpt.lines, marks, strict=True)
    ]
    facts = collect(lines)
    _resolve(lines, excerpt.files)
    _resolve_pids(lines, facts.pid_ranks)
    attend(facts, lines)
    return Attributed(excerpt.source, excerpt.files, tuple(lines), facts, excerpt.n_lines, excerpt.n_bytes)


def marked(excerpt: Excerpt) -> list[list[Mark]]:
    """Return the prefixes of all lines, the weak ones taken at their word."""
    table, every = by_start(), frozenset(form.name for form in FORMS if form.weak)
    return [list(prefixes(raw.text, table, every)) for raw in excerpt.lines]


def believed(excerpt: Excerpt, marks: Sequence[Sequence[Mark]]) -> dict[int, frozenset[str]]:
    """Return the weak forms that enough lines of each file bear, at any depth of their prefixes."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    values: dict[tuple[int, str], set[str]] = defaultdict(set)
    totals: Counter[int] = Counter()
    for raw, mark in zip(excerpt.lines, marks, strict=True):
        if not raw.text.strip():
            continue
        totals[raw.file] += 1
        for form, match in mark:
            if form.weak:
                found[raw.file][form.name] += 1
                values[raw.file, form.name].add(match.group())
    out: dict[int, frozenset[str]] = defaultdict(frozenset)
    for file, counts in found.items():
        out[file] = frozenset(
            name
            for name, count in counts.items()
            if count >= max(3, _SUPPORT * totals[file]) and len(values[file, name]) <= 1 + count // 2
        )
    return out


def prefixes(text: str, table: dict[str, tuple[Form, ...]], weak: frozenset[str]) -> Iterator[Mark]:
    """Yield (form, match) from the left until none matches; `weak` names the weak forms that are believed."""
    at = 0
    last = ""
    for _ in range(_DEPTH):
        if at >= len(text):
            return
        for form in table.get(kind_of(text[at]), ()):
            if form.weak and (form.name not in weak or form.name == last):
                continue
            match = form.regex.match(text, at)
            if match and match.end() > at:
                yield form, match
                at = match.end()
                last = form.name
                break
        else:
            return


def _parse(
    raw: RawLine,
    hint: SourceFile,
    found: Iterable[Mark],
    table: dict[str, tuple[Form, ...]],
    weak: frozenset[str],
    clock: Clock,
) -> Line:
    text = raw.text
    if text.startswith('{"') and (inner := json_body(text)) is not None:
        text = inner
    if text is not raw.text or any(form.weak and form.name not in weak for form, _ in found):
        found = prefixes(text, table, weak)
    line = Line(raw.file, raw.number, text, text, rank=hint.rank, local_rank=hint.local_rank, host=hint.host)
    at = 0
    tags: list[str] = []
    for form, match in found:
        got = match.groupdict()
        if (rank := got.get("rank")) is not None and len(rank) < 7:
            if form.name == "rank" and line.rank is not None and line.local_rank is None and "rank" in tags:
                line.local_rank = line.rank  # torchrun --role rank: the outer mark is local
            line.rank = int(rank)
        if (local := got.get("local")) is not None and len(local) < 7:
            line.local_rank = int(local)
        if (task := got.get("task")) is not None and len(task) < 7 and line.rank is None:
            line.rank = int(task)
        if (device := got.get("device")) is not None and line.local_rank is None and len(device) < 4:
            line.local_rank = int(device)
        line.host = got.get("host") or line.host
        if (pid := got.get("pid")) is not None and len(pid) < 12:
            line.pid = int(pid)
        line.level = got.get("level") or line.level
        line.origin = got.get("origin") or line.origin
        if got.get("h"):
            line.time = clock.seconds(got)
        if form.name not in _TIMES:
            tags.append(form.name)
        at = match.end()
    line.text = text[at:] if at else text
    who = line.rank if line.rank is not None else f"l{line.local_rank}" if line.local_rank is not None else ""
    line.source = f"{raw.file}:{line.host or ''}:{who}:{line.pid or ''}"
    return line


_TIMES = {"iso", "us date", "ctime", "uptime", "clock only", "level", "dash"}
_BODY_KEYS = ("log", "message", "msg", "text", "body")


def json_body(text: str) -> str | None:
    """Return the line, or lines, inside a log shipper's JSON object (docker's json-file and its like)."""
    try:
        row = from_json(text)
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    for key in _BODY_KEYS:
        if isinstance(body := row.get(key), str):
            stamp = next((row[k] for k in ("time", "timestamp", "ts", "@timestamp") if isinstance(row.get(k), str)), "")
            rank = row.get("rank")
            mark = f"[rank{rank}]: " if isinstance(rank, int) and not isinstance(rank, bool) else ""
            return harmless((f"{stamp} " if stamp else "") + mark + body.strip("\r\n"))
    return None


def _resolve(lines: list[Line], files: tuple[SourceFile, ...]) -> None:
    """Give ranks to lines that bear only a local rank or a pid, where other lines map them.

    A (host, pid) or (file, local rank) that stands beside one global rank anywhere has that rank everywhere. Where no
    global rank contradicts and at most one host is named, local ranks are the global ones (taxonomy, rule 11).
    """
    pid_rank: dict[tuple[str, int], set[int]] = defaultdict(set)
    local_rank: dict[tuple[str, int], set[int]] = defaultdict(set)
    for line in lines:
        if line.rank is None:
            continue
        if line.pid is not None:
            pid_rank[line.host or "", line.pid].add(line.rank)
        if line.local_rank is not None:
            local_rank[line.host or files[line.file].name.split("/")[0], line.local_rank].add(line.rank)
    hosts = {line.host for line in lines if line.host and line.local_rank is not None}
    multi = len(hosts) > 1 or any(len(r) > 1 or r != {key[1]} for key, r in local_rank.items())
    for line in lines:
        if line.rank is not None:
            continue
        found: set[int] = set()
        if line.pid is not None:
            found = pid_rank.get((line.host or "", line.pid), set())
        if not found and line.local_rank is not None:
            found = local_rank.get((line.host or files[line.file].name.split("/")[0], line.local_rank), set())
            if not found and not multi:
                found = {line.local_rank}
        if len(found) == 1:
            line.rank = next(iter(found))


def _resolve_pids(lines: list[Line], pid_ranks: dict[tuple[str, int], int]) -> None:
    any_host = {pid: rank for (_, pid), rank in pid_ranks.items()}
    for line in lines:
        if line.rank is None and line.pid is not None:
            line.rank = pid_ranks.get((line.host or "", line.pid), any_host.get(line.pid))
