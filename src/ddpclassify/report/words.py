"""Words for people: ranks as ranges, proofs shortened, log text made harmless."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from ddpclassify.language import say
from ddpclassify.patterns import lazy
from ddpclassify.types import Diagnosis

RETRY = {
    "yes": "yes, the same job may run through",
    "no": "no, it would fail again",
    "maybe": "may help",
}
# (silent, alone) → what the culprits do.
_DOES = {
    (False, True): " failed first",
    (False, False): " failed first",
    (True, True): " reports no failure of its own; the others point to it",
    (True, False): " report no failure of their own; the others point to them",
}
# What a line repeats although it stands beside it anyway: the rank.
_RANK_MARK = lazy(r"^(?:\[(?:PG (?:ID )?\d+[^\]]*? )?[Rr]ank ?\d+\]:?\s*)+")
_CLAUSE = lazy(r"(?<=[.;!?])\s+|(?<=,)\s+(?=[A-Za-z])|(?<!\s)\s+(?=\()")


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
        text = f"{text[: limit - 1].rpartition(', ')[0]}, … " + say("({n} in all)", n=len(ranks))
    return say("ranks {ranks}" if len(ranks) > 1 else "rank {ranks}", ranks=text)


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
    sure = say("{percent} sure", percent=f"{d.confidence:.0%}")
    return listed([clean(d.category + (f" ({d.reason})" if d.reason else "")), sure])


def who(d: Diagnosis) -> str:
    """Return whom the failure began with."""
    whom = rank_words(d.culprit_ranks) + (say(" of {world}", world=d.world_size) if d.world_size else "")
    host = say(" on {host}", host=clean(d.culprit_host)) if d.culprit_host else ""
    sure = say(" ({percent} sure)", percent=f"{d.culprit_confidence:.0%}")
    if d.scope == "ranks":
        return whom + host + say(_DOES[silent(d), len(d.culprit_ranks) == 1]) + sure
    if d.scope == "all":
        if d.world_size == 1:
            return say("the only rank failed") + sure
        everyone = say("all {world} ranks", world=d.world_size) if d.world_size else say("all ranks")
        return everyone + say(" failed the same way") + sure
    if d.scope == "launcher":
        return say("the launcher or something outside the workers") + host + sure
    return say("nobody: no failure found" if d.scope == "none" else "the log does not tell which rank")


def silent(d: Diagnosis) -> bool:
    """Whether the culprits report no failure themselves, while others do."""
    told = {r for f in d.failures if not f["seen_in_healthy"] for r in f["ranks"]}
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


def listed(parts: Iterable[str]) -> str:
    """Join the parts that say something."""
    return say(", ").join(filter(None, parts))


def place(file: str | None, lines: Sequence[int]) -> str:
    """Write where a text stands: ``node1.log line 3`` or ``lines 3, 7``."""
    shown = ", ".join(map(str, lines[:3])) + (", … " + say("({n} in all)", n=len(lines)) if len(lines) > 3 else "")
    where = say("lines {lines}" if len(lines) > 1 else "line {lines}", lines=shown)
    return f"{clean(file)} {where}" if file else where


def columns(text: str) -> int:
    """Return the columns that a text takes on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def wrap(text: str, width: int, whole: bool = False) -> list[str]:
    """Break a text into lines of at most `width` columns.

    Lines break at blanks and beside Chinese characters, but not before a closing mark or behind an opening one. A word
    that is longer than a line is broken anywhere, or, where words must stay `whole`, stands out.

    >>> wrap("显存不足，先看 nvidia-smi（每张卡）。", 16)
    ['显存不足，先看', 'nvidia-smi（每张', '卡）。']
    """
    lines = [""]
    for word in text.split():
        blank = " " if lines[-1] else ""
        for atom in _atoms(word, 1 << 30 if whole else width):
            if lines[-1] and columns(lines[-1]) + len(blank) + columns(atom) > width:
                lines.append(atom)
            else:
                lines[-1] += blank + atom
            blank = ""
    return lines


_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60"
_CLOSING, _OPENING = "，。；：！？、）》」』”", "（《「『“"
_ATOM = lazy(rf"[{_OPENING}]*(?:[{_WIDE}]|[^{_WIDE}{_OPENING}{_CLOSING}]+)[{_CLOSING}]*|.")


def _atoms(word: str, width: int) -> Iterable[str]:
    """The parts of a word that must stay on one line; none wider than `width`."""
    for atom in [word] if word.isascii() else _ATOM.findall(word):
        while columns(atom) > width:
            cut = width if atom.isascii() else next(i for i in range(len(atom), 0, -1) if columns(atom[:i]) <= width)
            yield atom[:cut]
            atom = atom[cut:]
        yield atom
