"""Words for people: ranks as ranges, proofs shortened, log text made harmless."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from ddpclassify.types import Diagnosis

RETRY = {
    "yes": "yes, the same job may run through",
    "no": "no, it would fail again",
    "maybe": "may help",
}
# What a line repeats although it stands beside it anyway: the rank.
_RANK_MARK = re.compile(r"^(?:\[(?:PG (?:ID )?\d+[^\]]*? )?[Rr]ank ?\d+\]:?\s*)+")
_CLAUSE = re.compile(r"(?<=[.;!?])\s+|(?<=,)\s+(?=[A-Za-z])|(?<!\s)\s+(?=\()")


def clean(text: str) -> str:
    """Make log text safe to show: control codes and what steers the direction of text become blanks."""
    return "".join(c if c.isprintable() else " " for c in text)


def ranges(ranks: Sequence[int]) -> str:
    """Write ranks as ranges.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    parts: list[str] = []
    start = None
    for i, rank in enumerate(ranks):
        start = rank if start is None else start
        if i + 1 == len(ranks) or ranks[i + 1] != rank + 1:
            parts.append(f"{start}-{rank}" if rank > start else f"{rank}")
            start = None
    return ", ".join(parts)


def rank_words(ranks: Sequence[int], limit: int = 60) -> str:
    """Write ``rank 3`` or ``ranks 0-2, 5``; a list longer than `limit` characters is cut and counted.

    >>> rank_words(range(0, 4000, 2), 30)
    'ranks 0, 2, 4, 6, 8, 10, 12, 14, … (2000 in all)'
    """
    if not ranks:
        return ""
    text = ranges(ranks)
    if len(text) > limit:
        text = f"{text[: limit - 1].rpartition(', ')[0]}, … ({len(ranks)} in all)"
    return ("ranks " if len(ranks) > 1 else "rank ") + text


def shorten(text: str, limit: int) -> str:
    """Shorten a proof to `limit` characters: the first clause stays, then those with numbers, in their order.

    >>> shorten("OutOfMemoryError: CUDA out of memory. Tried to allocate 4 GiB. See the notes, please.", 65)
    'OutOfMemoryError: CUDA out of memory. Tried to allocate 4 GiB. …'
    """
    text = " ".join(clean(text).split())
    if len(text) <= limit:
        return text
    clauses = _CLAUSE.split(text[: 20 * limit])
    kept = {0}
    room = limit - len(clauses[0]) - 2
    told = [i for i in range(1, len(clauses)) if any(c.isdigit() or c == "=" for c in clauses[i])]
    for i in told + [i for i in range(1, len(clauses)) if i not in told]:
        cost = len(clauses[i]) + 1 + 2 * (i - 1 not in kept)
        if cost <= room:
            kept.add(i)
            room -= cost
    out: list[str] = []
    for i, clause in enumerate(clauses):
        if i in kept:
            out.append(clause)
        elif out[-1] != "…":
            out.append("…")
    short = " ".join(out)
    return short if len(short) <= limit else _cut(short, limit)


def _cut(text: str, limit: int) -> str:
    """Cut what has no clauses: the head, and the end, where paths and values stand."""
    tail = text[-(limit // 4) :]
    tail = tail.partition(" ")[2] or tail
    return f"{text[: limit - len(tail) - 3].rstrip('… ')} … {tail.strip('… ')}"


def bare(text: str) -> str:
    """Return a statement without the rank marks at its head (the rank is told beside it)."""
    return _RANK_MARK.sub("", text) or text


def title(category: str) -> str:
    """Return the category's few words for a heading; nothing for a category of somebody's own corpus."""
    from ddpclassify import taxonomy

    try:
        return taxonomy.load(category).title
    except KeyError:
        return ""


def headline(d: Diagnosis) -> str:
    """Return what failed, in few words, without the source."""
    if d.category == "unknown":
        return "unknown"
    return clean(d.category + (f" ({d.reason})" if d.reason else "")) + f", {d.confidence:.0%} sure"


def who(d: Diagnosis) -> str:
    """Return whom the failure began with."""
    of = f" of {d.world_size}" if d.world_size else ""
    everyone = f"all {d.world_size} ranks" if d.world_size else "all ranks"
    host = f" on {clean(d.culprit_host)}" if d.culprit_host else ""
    sure = f" ({d.culprit_confidence:.0%} sure)"
    ranks = rank_words(d.culprit_ranks)
    does = "failed first"
    if silent(d):
        its, it, s = ("its", "it", "s") if len(d.culprit_ranks) == 1 else ("their", "them", "")
        does = f"report{s} no failure of {its} own; the others point to {it}"
    return {
        "ranks": f"{ranks}{of}{host} {does}{sure}",
        "all": f"{everyone} failed the same way{sure}" if d.world_size != 1 else f"the only rank failed{sure}",
        "launcher": f"the launcher or something outside the workers{host}{sure}",
        "none": "nobody: no failure found",
        "unknown": f"the log does not tell which rank{sure}",
    }[d.scope]


def silent(d: Diagnosis) -> bool:
    """Whether the culprits report no failure themselves, while others do."""
    told = {r for f in d.failures for r in f["ranks"]}
    return bool(d.culprit_ranks) and bool(told) and not told & set(d.culprit_ranks)


def lead(d: Diagnosis) -> dict[str, Any] | None:
    """Return the failure that is most likely the cause."""
    causes = [f for f in d.failures if f["role"] == "cause"]
    return max(causes, key=lambda f: f["score"], default=None)


def what(failure: dict[str, Any]) -> str:
    """Return what one failure says, with its exception type."""
    if failure["exception"]:
        name = failure["exception"].rpartition(".")[2]
        return clean(f"{name}: {failure['message']}" if failure["message"] else name)
    return clean(bare(failure["message"])) or failure["kind"].replace("_", " ")


def place(file: str | None, lines: Sequence[int]) -> str:
    """Write where a text stands: ``node1.log line 3`` or ``lines 3, 7``."""
    shown = ", ".join(map(str, lines[:3])) + (f", … ({len(lines)} in all)" if len(lines) > 3 else "")
    return (f"{clean(file)} " if file else "") + ("lines " if len(lines) > 1 else "line ") + shown


def columns(text: str) -> int:
    """Return the columns that a text takes on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def wrap(text: str, width: int) -> list[str]:
    """Break a text at blanks into lines of at most `width` columns; longer words are broken anywhere."""
    lines = [""]
    for word in _pieces(text.split(), width):
        if not lines[-1]:
            lines[-1] = word
        elif columns(lines[-1]) + 1 + columns(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def _pieces(words: Iterable[str], width: int) -> Iterable[str]:
    for word in words:
        while columns(word) > width:
            cut = width if word.isascii() else next(i for i in range(len(word), 0, -1) if columns(word[:i]) <= width)
            yield word[:cut]
            word = word[cut:]
        yield word
