"""One self-contained HTML page on the diagnoses of any number of logs; it loads nothing and runs no log text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Template

from ddpclassify import __version__
from ddpclassify.language import current, say
from ddpclassify.page import parts
from ddpclassify.page.lanes import Told, story, told
from ddpclassify.page.markup import Html, join, tag
from ddpclassify.page.picture import SHORT, SYMBOLS, glyph
from ddpclassify.report.words import headline, rank_words, title
from ddpclassify.types import Diagnosis, Folded

__all__ = ["page"]

_HEADS = ("Log", "What", "Category", "Who")
_SCOPES = {"all": "all ranks", "none": "–", "launcher": "the launcher", "unknown": "unknown", "ranks": "–"}
_HERE = Path(__file__).parent


def page(logs: Sequence[tuple[Folded, Diagnosis]], unread: Sequence[str] = ()) -> str:
    """Return the page as text.

    Parameters
    ----------
    logs : from `Model.explain`, one a log
    unread : what went wrong with logs that could not be read, a line each
    """
    names = [f"log{i}" for i in range(1, len(logs) + 1)]
    failures = [told(folded, d) for folded, d in logs]
    articles = [_article(folded, d, mine, name) for (folded, d), mine, name in zip(logs, failures, names, strict=True)]
    script, style = _asset("script.js"), _asset("style.css")
    return Template(_asset("template.html")).substitute(
        lang={"zh": "zh-Hans"}.get(current(), current()),
        skip=tag("a", say("Skip to the diagnosis"), class_="skip", href="#main"),
        title=tag("title", _title([d for _, d in logs])),
        policy=_policy(script, style),
        style=style,
        symbols=SYMBOLS,
        overview=_overview([d for _, d in logs], names, unread),
        filter=_filter([t for mine in failures for t in mine]),
        articles=join(articles),
        footer=tag(
            "footer", say("Made by ddpclassify {version}. This page loads nothing from anywhere.", version=__version__)
        ),
        script=script,
    )


@cache
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> Html:
    def digest(content: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() + "'"

    rules = (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    # The rules hold quotes of their own and no text from outside.
    return Html(f'<meta http-equiv="Content-Security-Policy" content="{rules}">')


def _title(diagnoses: Sequence[Diagnosis]) -> str:
    if len(diagnoses) == 1:
        d = diagnoses[0]
        return f"{d.category}: {d.source.rstrip('/').rpartition('/')[2]} – ddpclassify"
    return say("{n} logs", n=len(diagnoses)) + " – ddpclassify"


def _overview(diagnoses: Sequence[Diagnosis], names: Sequence[str], unread: Sequence[str]) -> Html:
    errors = tag("ul", *(tag("li", e) for e in unread), class_="unread") if unread else None
    if len(diagnoses) < 2:
        return join([errors])
    rows = [
        tag(
            "tr",
            tag("th", tag("a", d.source, href=f"#{name}"), scope="row"),
            tag("td", title(d.category) or d.category),
            tag("td", tag("code", headline(d))),
            tag("td", rank_words(d.culprit_ranks, 30) or say(_SCOPES[d.scope])),
        )
        for d, name in zip(diagnoses, names, strict=True)
    ]
    head = tag("thead", tag("tr", *(tag("th", say(h), scope="col") for h in _HEADS)))
    table = parts.wide(tag("table", head, tag("tbody", *rows)), say("Logs"))
    return tag(
        "nav", tag("h2", say("{n} logs", n=len(names))), table, errors, class_="overview", aria_label=say("Logs")
    )


def _filter(failures: Sequence[Told]) -> Html:
    """The form that the script shows; without it nothing is filtered and nothing is lost."""
    if not failures:
        return Html("")
    boxes = [
        tag("label", tag("input", type="checkbox", name="standing", value=s, checked=True), glyph(s), say(short))
        for s, short in SHORT.items()
        if any(t.standing == s for t in failures)
    ]
    kinds = sorted({t.row["kind"] for t in failures})
    options = [tag("option", say("all kinds"), value=""), *(tag("option", k.replace("_", " "), value=k) for k in kinds)]
    return tag(
        "form",
        tag(
            "label",
            say("Ranks") + " ",
            tag("input", type="text", name="ranks", placeholder=say("all, or 0-3, 7"), size=14, autocomplete="off"),
        ),
        tag("label", say("Kind") + " ", tag("select", *options, name="what")),
        tag("fieldset", tag("legend", say("Show"), class_="sr"), *boxes),
        tag("output", "", name="shown", data_words=say("{shown} of {all} failures")),
        class_="filter",
        hidden=True,
        role="search",
        aria_label=say("Filter failures"),
    )


def _article(folded: Folded, d: Diagnosis, mine: list[Told], name: str) -> Html:
    return tag(
        "article",
        parts.answer(folded, d, name),
        parts.lanes(story(folded, d, mine), name, len(folded.events.log.lines) < d.lines),
        parts.evidence(folded, d, name),
        parts.advice(d, name),
        parts.failures(folded, mine, name),
        parts.odds(d),
        id=name,
        aria_labelledby=f"{name}-h",
    )
