"""A diagnosis for a reader: plain text, or JSON."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from ddpclassify.types import Diagnosis

__all__ = ["json_report", "text_report"]

WIDTH = 80
_LABEL = 9


def json_report(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as one line of JSON."""
    return json.dumps(diagnosis.to_dict(), ensure_ascii=True)


def text_report(diagnosis: Diagnosis, verbose: bool = False, quiet: bool = False) -> str:
    """Return the diagnosis as text of at most 80 columns: what, who, proof, what followed, what to do.

    Parameters
    ----------
    verbose : all failures and steps, not only the first
    quiet : the first line only
    """
    d = diagnosis
    lines = [_headline(d)]
    if quiet:
        return lines[0]
    if d.category == "unknown" and d.candidates:
        guesses = ", ".join(f"{c['category']} {c['probability']:.0%}" for c in d.candidates[:3])
        lines += _field("guess", f"not sure enough to say; best guesses: {guesses}")
    lines += _field("who", _who(d))
    for number, item in enumerate(d.evidence[: 5 if verbose else 2]):
        place = (
            (f"{item['file']} " if item["file"] else "")
            + f"line {item['line']}"
            + (f", rank {item['rank']}" if item["rank"] is not None else "")
        )
        lines += _field("proof" if number == 0 else "", f"{place}: {_clean(item['text'])}", limit=3)
    cause = next((f for f in d.failures if f["role"] == "cause"), None)
    if cause and cause["location"]:
        lines += _field("where", cause["location"])
    followed = [
        f
        for f in d.failures
        if f["role"] == "consequence" and not f["recovered"] and not (f["kind"] == "error_line" and not verbose)
    ]
    for number, failure in enumerate(_grouped(followed)[: None if verbose else 4]):
        lines += _field("then" if number == 0 else "", failure, limit=2)
    if d.progress:
        last = max(d.progress.values(), key=lambda p: p["line"])
        lines += _field("progress", f"last step seen: {last['step']} (line {last['line']})")
    if d.advice.get("first_check"):
        lines += _field("check", d.advice["first_check"])
    for number, step in enumerate(d.advice.get("steps", [])[: None if verbose else 3]):
        lines += _field("do" if number == 0 else "", step)
    if d.category != "no_failure":
        lines += _field(
            "retry",
            {"yes": "yes, the same job may run through", "no": "no, it would fail again", "maybe": "may help"}[d.retry],
        )
    for number, text in enumerate(d.missing):
        lines += _field("missing" if number == 0 else "", text)
    return "\n".join(lines)


def _headline(d: Diagnosis) -> str:
    from ddpclassify import taxonomy

    try:
        title = taxonomy.load(d.category).title
    except KeyError:
        title = ""
    what = d.category + (f" ({d.reason})" if d.reason else "")
    head = (
        f"{_clean(d.source)}: {what}, {d.confidence:.0%} sure"
        if d.category != "unknown"
        else f"{_clean(d.source)}: unknown"
    )
    return head + (f"\n  {title}" if title else "")


def _who(d: Diagnosis) -> str:
    of = f" of {d.world_size}" if d.world_size else ""
    host = f" on {_clean(d.culprit_host)}" if d.culprit_host else ""
    who = "ranks" if len(d.culprit_ranks) > 1 else "rank"
    sure = f" ({d.culprit_confidence:.0%} sure)"
    return {
        "ranks": f"{who} {ranges(d.culprit_ranks)}{of}{host} failed first{sure}",
        "all": f"all ranks{of} failed the same way{sure}",
        "launcher": f"the launcher or something outside the workers{host}{sure}",
        "none": "nobody: no failure found",
        "unknown": f"the log does not tell which rank{sure}",
    }[d.scope]


def _grouped(failures: list[dict[str, Any]]) -> list[str]:
    out = []
    for f in failures:
        who = f"rank{'s' if len(f['ranks']) > 1 else ''} {ranges(f['ranks'])}: " if f["ranks"] else ""
        what = (
            f"{f['exception'].rpartition('.')[2]}: {f['message']}"
            if f["exception"]
            else f["message"] or f["kind"].replace("_", " ")
        )
        times = f" ({f['count']} times)" if f["count"] > max(1, len(f["ranks"])) else ""
        out.append(f"line {f['first_line']}, {who}{_clean(what)[:160]}{times}")
    return out


def ranges(ranks: list[int]) -> str:
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


def _clean(text: str) -> str:
    """Make log text safe for a terminal: no control code gets through."""
    return "".join(c if c.isprintable() else " " for c in text)


def _field(label: str, text: str, limit: int = 99) -> list[str]:
    wrapped = textwrap.wrap(" ".join(text.split()), WIDTH - _LABEL - 2, break_on_hyphens=False) or [""]
    if len(wrapped) > limit:
        wrapped = [*wrapped[: limit - 1], wrapped[limit - 1][: WIDTH - _LABEL - 4] + " …"]
    return [f"  {label if i == 0 else '':<{_LABEL}}{line}" for i, line in enumerate(wrapped)]
