"""The answer for a terminal: 80 columns, from the top what, who, proof, where, what followed, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ddpclassify.fold.normalise import skeleton
from ddpclassify.language import say
from ddpclassify.report.differences import Table, differences
from ddpclassify.report.stack import Call, Run, innermost, origin, runs
from ddpclassify.report.words import (
    RETRY,
    bare,
    clean,
    columns,
    headline,
    lead,
    listed,
    place,
    rank_words,
    shorten,
    title,
    what,
    who,
    wrap,
)
from ddpclassify.types import Diagnosis, Folded

WIDTH = 80
LABELS = (
    "who",
    "proof",
    "where",
    "differ",
    "then",
    "usual",
    "progress",
    "check",
    "do",
    "retry",
    "missing",
    "odds",
    "model",
    "guess",
    "why",
    "for",
    "against",
)
_LABEL = 11  # columns before the text
_ROOM = WIDTH - _LABEL
_ROWS = 6  # of a table of differences
_WHOM = {"all": "all ranks", "launcher": "the launcher", "ranks": "", "none": "", "unknown": ""}


def text_report(diagnosis: Diagnosis, verbose: bool = False, quiet: bool = False, folded: Folded | None = None) -> str:
    """Return the diagnosis as text of at most 80 columns.

    Parameters
    ----------
    verbose : all failures, frames, proofs and steps, uncut
    quiet : one line
    folded : the log's failures, for the frames of tracebacks and what differs between ranks
    """
    d = diagnosis
    if quiet:
        return (
            f"{clean(d.source)}: {listed((headline(d), _guess(d), rank_words(d.culprit_ranks) or say(_WHOM[d.scope])))}"
        )
    lines = [*_head(d, verbose)]
    lines += _field("who", who(d))
    lines += _items("proof", _proofs(d, verbose))
    lines += _origin(lead(d), folded, verbose)
    lines += _items("then", _followed(d, verbose))
    lines += _field("usual", _usual(d, folded))
    if d.progress:
        last = max(d.progress.values(), key=lambda p: p["line"])
        lines += _field("progress", say("last step seen: {step} (line {line})", **last))
    lines += _field("check", d.advice.get("first_check", ""))
    lines += _items("do", d.advice.get("steps", [])[: None if verbose else 3])
    if d.category != "no_failure":
        lines += _field("retry", say(RETRY[d.retry]))
    lines += _items("missing", d.missing)
    if verbose:
        lines += _items("odds", (f"{c['category']} {c['probability']:.1%}" for c in d.candidates))
        lines += _field("model", clean(f"{d.model['name']} {d.model['version']}"))
    if d.explanation is not None:
        from ddpclassify.report.why import told

        for label, texts in told(d):
            lines += _items(label, texts)
    return "\n".join(lines)


def _head(d: Diagnosis, verbose: bool) -> Iterator[str]:
    tail = f": {headline(d)}"
    source = clean(d.source)
    room = WIDTH - columns(tail)
    if not verbose and columns(source) > room:
        name = source.rstrip("/").rpartition("/")[2]
        source = f"…/{name}"
    yield source + tail
    if words := title(d.category):
        yield f"  {words}"
    if d.category == "unknown" and d.candidates:
        guesses = ", ".join(f"{c['category']} {c['probability']:.0%}" for c in d.candidates[:3])
        yield from _field("guess", say("not sure enough to say; best guesses: {guesses}", guesses=guesses))


def _guess(d: Diagnosis) -> str:
    """Return the best guess of an unknown failure."""
    best = d.candidates[0] if d.category == "unknown" and d.candidates else None
    return say("best guess {category} {percent}", **best, percent=f"{best['probability']:.0%}") if best else ""


def _proofs(d: Diagnosis, verbose: bool) -> Iterator[str]:
    """The evidence; lines that say the same for several ranks are told once."""
    groups: dict[tuple[str | None, str], list[dict[str, Any]]] = {}
    for item in d.evidence:
        groups.setdefault((item["file"], skeleton(bare(item["text"]))), []).append(item)
    for items in list(groups.values())[: None if verbose else 2]:
        ranks = sorted({i["rank"] for i in items if i["rank"] is not None})
        numbers = sorted(i["line"] for i in items)
        where = listed((place(items[0]["file"], numbers), rank_words(ranks)))
        text = clean(bare(items[0]["text"]))
        yield where + say(": ") + (text if verbose else shorten(text, 3 * _ROOM - len(where) - 12))


def _origin(cause: dict[str, Any] | None, folded: Folded | None, verbose: bool) -> list[str]:
    """The place in the user's code, with the frames around it, and what differs between the ranks."""
    if cause is None:
        return []
    failure = next((f for f in folded.failures if f.signature == cause["signature"]), None) if folded else None
    if folded is None or failure is None:
        return _field("where", clean(cause["location"] or ""))
    calls = origin(folded, cause)
    lines = _all_frames(calls) if verbose and calls else _frames(calls)
    table = differences(failure, folded.failures)
    return lines + (_table(table) if table else [])


def _frames(calls: Sequence[Call]) -> list[str]:
    """The user's innermost frame with its code, then its callers; library frames are only counted."""
    inner = innermost(calls)
    if inner is None:
        return []
    where = clean(inner.place)
    if not inner.frame.user:
        where = say("in {packages}, no line of your own code: {place}", packages=_packages([inner]), place=where)
    lines = _field("where", where)
    if inner.code:
        lines += _field("", "> " + shorten(inner.code, _ROOM - 2))
    at = calls.index(inner)
    callers = [clean(c.place) for c in reversed(calls[:at]) if c.frame.user]
    if callers:
        shown = ", ".join(callers[:3]) + (", …" if len(callers) > 3 else "")
        lines += _field("", say("called from {callers}", callers=shown))
    if below := calls[at + 1 :]:
        lines += _field("", _deeper(below))
    return lines


def _all_frames(calls: Sequence[Call]) -> list[str]:
    lines = _field("where", say("innermost frame first"))
    for run in reversed(runs(calls)):
        mark = "" if run.user else f"   [{run.packages}]"
        for call in reversed(run.calls):
            lines += _field("", clean(call.place) + clean(mark))
            if call.code:
                lines += _field("", "> " + clean(call.code))
    return lines


def _deeper(calls: Sequence[Call]) -> str:
    return say("raised deeper, in {packages}: {place}", packages=_packages(calls), place=clean(calls[-1].place))


def _packages(calls: Sequence[Call]) -> str:
    return clean(Run(tuple(calls), False).packages)


def _table(table: Table) -> list[str]:
    """Ranks and their values side by side."""
    rows = [("", *table.names)] + [(rank_words(ranks, 24), *values) for ranks, values in table.rows[:_ROWS]]
    cells = [[clean(cell)[:24] for cell in row] for row in rows]
    while sum(widths := [max(map(columns, column)) + 2 for column in zip(*cells, strict=True)]) > _ROOM:
        cells = [row[:-1] for row in cells]
    lines = [
        _label("" if i else "differ")
        + "".join(cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for i, row in enumerate(cells)
    ]
    if len(table.rows) > _ROWS:
        lines += _field("", say("… {n} more", n=len(table.rows) - _ROWS))
    return lines


def _followed(d: Diagnosis, verbose: bool) -> list[str]:
    """What came after the cause; without `verbose` only what says more than that something is wrong."""
    told: list[str] = []
    shown = [
        f
        for f in d.failures
        if f["role"] == "consequence"
        and (verbose or not (f["recovered"] or f["kind"] == "error_line" or f["seen_in_healthy"]))
    ]
    for f in shown[: None if verbose else 4]:
        times = say(" ({n} times)", n=f["count"]) if f["count"] > max(1, len(f["ranks"])) else ""
        where = listed((place(None, [f["first_line"]]), rank_words(f["ranks"])))
        text = what(f) if verbose else shorten(what(f), 2 * _ROOM - len(where) - len(times) - 10)
        told.append(where + say(": ") + text + times + _aside(f))
    if len(shown) > len(told):
        told.append(say("… {n} more (-v shows all)", n=len(shown) - len(told)))
    return told


def _aside(failure: dict[str, Any]) -> str:
    """What makes a failure harmless."""
    seen = say(" (in good runs too)") if failure["seen_in_healthy"] else ""
    return seen or (say(" (training went on)") if failure["recovered"] else "")


def _usual(d: Diagnosis, folded: Folded | None) -> str:
    """What good runs show as well: only counted, unless one of it is the cause all the same."""
    seen = [f for f in d.failures if f["seen_in_healthy"]]
    if any(f["role"] == "cause" for f in seen):
        return say("the cause is in good runs too: they do not tell the two apart")
    n = max(len(seen), len(folded.apart) if folded else 0)
    return say("failures that are in good runs too: {n} (-v shows them)", n=n) if seen else ""


def _items(label: str, texts: Iterable[str]) -> list[str]:
    return [line for i, text in enumerate(texts) for line in _field("" if i else label, text)]


def _field(label: str, text: str) -> list[str]:
    if not text:
        return []
    return [_label("" if i else label) + line for i, line in enumerate(wrap(text, _ROOM))]


def _label(label: str) -> str:
    word = say(label)
    return f"  {word}" + " " * (_LABEL - 2 - columns(word))
