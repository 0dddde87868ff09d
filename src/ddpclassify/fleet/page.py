"""The summary as one self-contained HTML page; it loads nothing, runs nothing, and all log text in it is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from importlib.resources import files
from typing import Any

from ddpclassify import __version__
from ddpclassify.fleet.plots import Span, bars, span, sparkline
from ddpclassify.page.markup import Html, join, tag
from ddpclassify.report.words import rank_words, shorten, title

__all__ = ["page"]

_ISSUES, _NODES = 200, 20
_STYLE = """
:root { --s0: #2f6fb3; --s1: #c8552b; --s2: #2f8f6b; --s3: #a3509c; --s4: #b58a12; --s5: #5b6bd0; --s6: #9097a3; }
@media (prefers-color-scheme: dark) {
  :root { --s0: #6aa9ea; --s1: #f0875f; --s2: #5cc59b; --s3: #d287cc; --s4: #dcb64a; --s5: #98a4ff; --s6: #7c8492; }
}
section { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: 1.25rem 1.5rem; margin-top: 1rem; }
section:last-of-type { margin-bottom: 2rem; } section h2 { font-size: 1.15rem; margin-bottom: .6rem; } section p { margin-bottom: .6rem; }
section table { width: 100%; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td .chip { font-size: .78rem; margin-left: .4rem; } td small { display: block; color: var(--soft); overflow-wrap: anywhere; }
.alarm { border-top: .3rem solid var(--cause); } .bars { display: block; width: 100%; min-width: 40rem; font: 11px var(--sans); }
.bars text { fill: var(--soft); } .spark { width: 7.5rem; height: 1.25rem; fill: var(--link); }
.s0 { --k: var(--s0); } .s1 { --k: var(--s1); } .s2 { --k: var(--s2); } .s3 { --k: var(--s3); } .s4 { --k: var(--s4); } .s5 { --k: var(--s5); } .s6 { --k: var(--s6); }
.bars rect { fill: var(--k); } i.key { display: inline-block; width: .8rem; height: .8rem; }
"""  # noqa: E501


def page(found: dict[str, Any]) -> str:
    """Return the page of a summary."""
    axis = span([row["day"] for row in found["by_day"]])
    style = files("ddpclassify.page").joinpath("style.css").read_text("utf-8") + _STYLE
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<meta name="color-scheme" content="light dark">'),
            tag("title", f"{found['logs']} logs – ddpclassify"),
            tag("style", Html(style)),
        ]
    )
    main = tag("main", _counts(found), _nodes(found), _time(found, axis), _categories(found), _issues(found, axis))
    foot = tag("footer", f"Made by ddpclassify {__version__}. This page loads nothing from anywhere.")
    top = tag("header", tag("h1", "ddpclassify fleet"), class_="bar")
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{top}{main}{foot}</body></html>\n'


def _table(heads: list[str], rows: list[list[object]]) -> Html:
    """Return a table; heads that begin with # are of numbers."""
    kinds = ["n" if head.startswith("#") else None for head in heads]
    top = (tag("th", head.lstrip("#"), scope="col", class_=kind) for head, kind in zip(heads, kinds, strict=True))
    body = (tag("tr", *(tag("td", c, class_=kind) for c, kind in zip(row, kinds, strict=True))) for row in rows)
    return tag("div", tag("table", tag("thead", tag("tr", *top)), tag("tbody", *body)), class_="scroll")


def _counts(found: dict[str, Any]) -> Html:
    retry = found["retry"]
    facts = {
        "logs": found["logs"],
        "failed": found["failures"],
        "unreadable": found["unreadable"],
        "issues": len(found["issues"]),
        "a restart helps": f"{retry.get('yes', 0)} yes, {retry.get('maybe', 0)} maybe, {retry.get('no', 0)} no",
        "seen": f"{found['first_seen'][:10]} – {found['last_seen'][:10]}" if found["last_seen"] else "–",
    }
    return tag(
        "section", tag("dl", *(tag("div", tag("dt", k), tag("dd", v)) for k, v in facts.items()), class_="facts")
    )


def _nodes(found: dict[str, Any]) -> Html | None:
    bad = [node for node in found["nodes"] if node["bad"]][:_NODES]
    if not bad:
        return None
    rows: list[list[object]] = [
        [tag("code", n["host"]), n["culprit_in"], n["jobs"], f"{n['expected']:.1f}", f"{n['chance']:.1g}"] for n in bad
    ]
    note = "Culprits more often than they would be if all nodes were alike."
    table = _table(["Host", "#Culprit in", "#of its jobs", "#expected", "#chance"], rows)
    return tag("section", tag("h2", "Bad nodes"), tag("p", note), table, class_="alarm")


def _time(found: dict[str, Any], axis: Span | None) -> Html | None:
    if axis is None:
        return None
    series: dict[str, dict[str, int]] = defaultdict(dict)
    for row in found["by_day"]:
        for category, count in row["categories"].items():
            if category != "no_failure":
                series[category][row["day"]] = count
    order = sorted(series.items(), key=lambda kv: (-sum(kv[1].values()), kv[0]))
    if not order:
        return None
    each = "day" if axis.days == 1 else f"{axis.days} days"
    heading = f"Failures every {each}"
    return tag("section", tag("h2", heading), bars(axis, order, heading))


def _categories(found: dict[str, Any]) -> Html:
    rows: list[list[object]] = [
        [
            join([tag("code", c["category"]), tag("span", "grows", class_="chip") if c["grows"] else None]),
            title(c["category"]),
            c["logs"],
            c["days_before"],
            c["last_days"],
        ]
        for c in found["categories"]
    ]
    days = found["days"]
    table = _table(["Category", "What", "#Logs", f"#{days} days before", f"#last {days} days"], rows)
    return tag("section", tag("h2", "Categories"), table)


def _issues(found: dict[str, Any], axis: Span | None) -> Html:
    rows: list[list[object]] = []
    for issue in found["issues"][:_ISSUES]:
        hosts = ", ".join(f"{h['host']} ({h['jobs']})" for h in issue["hosts"][:4])
        more = f", … ({issue['culprit_hosts']} in all)" if issue["culprit_hosts"] > 4 else ""
        why = issue["why"]
        place = why.get("place")
        facts = " · ".join(
            filter(None, (issue["signature"], place, f"retry {issue['retry']}", f"e.g. {issue['example']}"))
        )
        new = tag("span", "new", class_="chip") if issue["new"] else None
        rows.append(
            [
                issue["jobs"],
                join([shorten(issue["title"], 140), new, tag("small", facts)]),
                tag("code", issue["category"] or ""),
                join([hosts + more, tag("small", rank_words(sorted(r["rank"] for r in issue["ranks"]), 30))]),
                f"{issue['first_seen'][:10]} – {issue['last_seen'][:10]}" if issue["first_seen"] else "–",
                sparkline(axis, issue["by_day"]) if axis else "",
            ]
        )
    heading = tag("h2", f"{len(found['issues'])} issues")
    more_note = (
        tag("p", f"The {_ISSUES} with most jobs; all are in --json.") if len(found["issues"]) > _ISSUES else None
    )
    table = _table(["#Jobs", "What", "Category", "Culprit hosts, ranks", "Seen", "Over time"], rows)
    return tag("section", heading, more_note, table)
