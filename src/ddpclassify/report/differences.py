"""What differs between the ranks that report one failure, as a small table: sequence numbers, shapes, sizes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ddpclassify.patterns import lazy
from ddpclassify.types import Event, Failure

_TOKEN = lazy(r"\d+(?:\.\d+)*(?: ?(?:[KMGT]i?B|ms)\b)?|[^\W\d]\w*|\S")
_LONGEST = 200  # tokens looked at
_DULL = 0.01  # numbers all within one percent are jitter
_COLUMNS = 4
# Last words of columns that never tell: who it is, how long it waited, values without a name.
_NEVER = lazy(r"(?i)^(?:rank|pid|pg|guid|thread|uuid|host|node|line|for|value)$")


class Table(NamedTuple):
    """Rows of (ranks, values), most ranks first; `names` are the columns' heads."""

    names: tuple[str, ...]
    rows: tuple[tuple[tuple[int, ...], tuple[str, ...]], ...]


def differences(failure: Failure, all_failures: Iterable[Failure] = ()) -> Table | None:
    """Compare what the ranks of a failure say.

    Parameters
    ----------
    failure : the failure
    all_failures : where to look for its siblings: same kind, exception and place, told by other ranks (a collective
        that most ranks time out in, and another one that one rank times out in)

    Returns
    -------
    A table, or `None` when nothing worth telling differs
    """
    said: dict[int, str] = {}
    key = _kin(failure)
    for each in (failure, *(f for f in all_failures if f is not failure and _kin(f) == key)):
        for event in each.events:
            if event.rank is not None:
                said.setdefault(event.rank, _whole(event))
    if len(said) < 2:
        return None
    tokens = {rank: _TOKEN.findall(text)[:_LONGEST] for rank, text in said.items()}
    length = len(next(iter(tokens.values())))
    if any(len(t) != length for t in tokens.values()):
        return None
    columns = [i for i in range(length) if len({t[i] for t in tokens.values()}) > 1 and _tells(i, tokens)][:_COLUMNS]
    if not columns:
        return None
    one = next(iter(tokens.values()))
    rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank, t in tokens.items():
        rows[tuple(t[i] for i in columns)].append(rank)
    if len(rows) > max(3, len(said) // 2) and len(rows) > 8:
        return None
    ordered = sorted(rows.items(), key=lambda row: (-len(row[1]), min(row[1])))
    return Table(tuple(_name(one, i) for i in columns), tuple((tuple(sorted(r)), v) for v, r in ordered))


def _kin(failure: Failure) -> tuple[str, str, str]:
    return failure.kind, failure.exception, failure.location


def _whole(event: Event) -> str:
    return " ".join([event.text, *(m.text for m in event.more[:3])])[:2000]


def _tells(i: int, tokens: dict[int, list[str]]) -> bool:
    """Whether a column tells more than the rank's own number, an address or jitter."""
    values = {rank: t[i] for rank, t in tokens.items()}
    name = _name(next(iter(tokens.values())), i)
    if _NEVER.match(name.rpartition(" ")[2]) or any(len(v) > 24 or v.startswith("0x") for v in values.values()):
        return False
    numbers = {rank: _number(v) for rank, v in values.items()}
    known = [n for n in numbers.values() if n is not None]
    if len(known) < len(numbers):
        return True
    if len({n - rank for rank, n in numbers.items() if n is not None}) == 1:
        return False
    jitter = max(known) - min(known) <= _DULL * abs(max(known))
    return not (jitter and len(set(known)) > max(2, len(known) // 2))


def _number(text: str) -> float | None:
    match = re.match(r"\d+(?:\.\d+)?", text)
    return float(match.group()) if match else None


def _name(tokens: Sequence[str], i: int) -> str:
    """Name a column by the words before it: ``SeqNum``, ``Tried to allocate``."""
    words: list[str] = []
    for token in reversed(tokens[:i]):
        if token[0].isalpha() or token[0] == "_":
            words.insert(0, token)
            if len(words) == 3 or tokens[i - 1] == "=":
                break
        elif words or token not in "=:([{'\",":
            break
    return " ".join(words) or "value"
