"""Who wrote a line, one line at a time: what `ranks.attribute` says of an excerpt, said of a stream of any length.

Bounded by construction: the job's facts come from the bounded excerpt, and the cache holds at most `_CACHED` shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ddpclassify.ranks import attribute, believed, json_body, marked, prefixes
from ddpclassify.ranks.forms import by_start
from ddpclassify.types import Attributed, Excerpt, SourceFile

_CACHED = 50_000
_HEAD = 200  # characters that prefixes may take
_DIGITS = str.maketrans("123456789", "000000000")
# Groups of a form → the field each one fills, and how many characters a believable value has at most.
_FIELDS = {
    "rank": ("rank", 6),
    "local": ("local", 6),
    "task": ("task", 6),
    "device": ("device", 3),
    "pid": ("pid", 11),
    "host": ("host", 253),
}
_Spans = tuple[tuple[str, int, int], ...]


class Owner(NamedTuple):
    """A writer: its global rank, or else its index on a host; all `None` when the line tells neither."""

    rank: int | None = None
    local: int | None = None
    host: str | None = None


class Owners:
    """Says who wrote any line of the log that `excerpt` was taken from."""

    def __init__(self, excerpt: Excerpt, log: Attributed | None = None) -> None:
        log = log or attribute(excerpt)
        self.files = excerpt.files
        self._table = by_start()
        self._weak = believed(excerpt, marked(excerpt))
        self._cache: dict[tuple[int, str], _Spans] = {}
        pids: dict[tuple[str, int], set[int]] = {}
        locals_: dict[tuple[str, int], set[int]] = {}
        for line in log.lines:
            if line.rank is not None and line.pid is not None:
                pids.setdefault((line.host or "", line.pid), set()).add(line.rank)
            if line.rank is not None and line.local_rank is not None:
                locals_.setdefault((_node(line.host, self.files[line.file]), line.local_rank), set()).add(line.rank)
        self._pids = {**log.facts.pid_ranks, **_certain(pids.items())}
        self._any_host = {pid: rank for (_, pid), rank in self._pids.items()}
        self._locals = _certain(locals_.items())
        # Local ranks are the global ones where nothing contradicts it and only one node is named.
        nodes = {line.host for line in log.lines if line.host and line.local_rank is not None}
        self._one_node = len(nodes) < 2 and all(ranks == {local} for (_, local), ranks in locals_.items())

    def owner(self, file: int, text: str) -> Owner:
        """Return the writer of a line of `excerpt.files[file]`; `text` is decoded, without its line feed."""
        parts = [part for part in text.split("\r") if part.strip()] if "\r" in text else [text]
        # An error may stand behind a progress bar that another process left without a line feed.
        for part in dict.fromkeys((parts or [""])[:1] + parts[-1:]):
            found = self._owner(file, part)
            if found.rank is not None or found.local is not None:
                return found
        return Owner()

    def _owner(self, file: int, text: str) -> Owner:
        if text.startswith('{"') and (body := json_body(text)) is not None:
            text = body
        hint = self.files[file]
        got: dict[str, str] = {}
        for field, start, end in self._spans(file, text[:_HEAD]):
            got[field] = text[start:end]
        rank, local = _number(got, "rank", hint.rank), _number(got, "local", hint.local_rank)
        if rank is None:
            rank = _number(got, "task", None)
        if local is None:
            local = _number(got, "device", None)
        host, pid = got.get("host") or hint.host, _number(got, "pid", None)
        if rank is None and pid is not None:
            rank = self._pids.get((host or "", pid), self._any_host.get(pid))
        if rank is None and local is not None:
            rank = self._locals.get((_node(host, hint), local), local if self._one_node else None)
        return Owner(rank, local, host)

    def _spans(self, file: int, head: str) -> _Spans:
        """Where the prefixes' fields stand; equal for all lines of one shape, whatever their digits."""
        shape = (file, head.translate(_DIGITS))
        spans = self._cache.get(shape)
        if spans is None:
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            found = []
            for _, match in prefixes(head, self._table, self._weak[file]):
                for group, value in match.groupdict().items():
                    if value and group in _FIELDS and len(value) <= _FIELDS[group][1]:
                        found.append((_FIELDS[group][0], match.start(group), match.end(group)))
            spans = self._cache[shape] = tuple(found)
        return spans


def _node(host: str | None, file: SourceFile) -> str:
    return host or file.name.split("/")[0]


def _number(got: dict[str, str], field: str, otherwise: int | None) -> int | None:
    value = got.get(field, "")
    return int(value) if value.isdecimal() else otherwise


def _certain(items: Iterable[tuple[tuple[str, int], set[int]]]) -> dict[tuple[str, int], int]:
    return {key: next(iter(ranks)) for key, ranks in items if len(ranks) == 1}
