"""A diagnosis as a small piece of HTML for a notebook: no style sheet, no script, the colours of its surroundings."""

from __future__ import annotations

from ddpclassify.language import say
from ddpclassify.page.markup import Html, join, prose, tag
from ddpclassify.report.words import bare, headline, lead, listed, place, rank_words, shorten, title, what, who
from ddpclassify.types import Diagnosis

_FRAME = "max-width:48em;line-height:1.45;border-left:.25em solid currentColor;padding:.1em 1em;overflow-wrap:anywhere"
_QUOTE = "margin:.6em 0;padding:.1em .8em;border-left:1px solid currentColor"
_SOFT = "opacity:.7;font-size:.9em"
_FOLLOWED = 5


def card(d: Diagnosis) -> Html:
    """Return the diagnosis: what, who, the proof, and folded what followed and what to do."""
    return tag(
        "div",
        tag("div", d.source, style=_SOFT),
        tag("div", tag("b", title(d.category) or d.category, style="font-size:1.25em")),
        tag("div", tag("code", headline(d))),
        tag("div", who(d), style="margin-top:.5em"),
        *(_proof(item) for item in d.evidence[:2]),
        _line("Place", (lead(d) or {}).get("location") if d.category != "no_failure" else None),
        tag("div", tag("b", say("Look first: ")), prose(d.advice["first_check"])) if d.advice["first_check"] else "",
        _folded("What to do", [prose(step) for step in d.advice["steps"]]),
        _folded("What followed", _followed(d)),
        _folded("Missing evidence", [prose(text) for text in d.missing]),
        style=_FRAME,
    )


def _proof(item: dict[str, object]) -> Html:
    file, line, rank = item["file"], item["line"], item["rank"]
    where = [
        place(str(file) if file else None, [int(str(line))]),
        rank_words([int(str(rank))]) if rank is not None else "",
    ]
    text = tag("code", shorten(bare(str(item["text"])), 400))
    return tag("div", tag("div", listed(where), style=_SOFT), text, style=_QUOTE)


def _line(label: str, text: str | None) -> Html:
    return tag("div", tag("b", say(label) + ": "), tag("code", text)) if text else Html("")


def _folded(label: str, items: list[Html]) -> Html:
    if not items:
        return Html("")
    return tag("details", tag("summary", say(label)), tag("ul", *(tag("li", item) for item in items)))


def _followed(d: Diagnosis) -> list[Html]:
    rows = [
        f
        for f in d.failures
        if f["role"] == "consequence" and not (f["recovered"] or f["seen_in_healthy"]) and f["kind"] != "error_line"
    ]
    shown = [
        join(
            [
                listed((place(None, [f["first_line"]]), rank_words(f["ranks"]))),
                say(": "),
                shorten(what(f), 160),
            ]
        )
        for f in rows[:_FOLLOWED]
    ]
    return [*shown, *([Html(say("… {n} more", n=len(rows) - _FOLLOWED))] if len(rows) > _FOLLOWED else [])]
