"""The summary for a terminal."""

from __future__ import annotations

from typing import Any

from ddpclassify.report.words import clean, rank_words, shorten

__all__ = ["text"]

_ISSUES, _NODES = 20, 10


def text(found: dict[str, Any]) -> str:
    """Return the summary as lines: counts, nodes that stand out, what grows, issues."""
    span = f", {found['first_seen'][:10]} to {found['last_seen'][:10]}" if found["last_seen"] else ""
    out = [
        f"{found['logs']} logs{span}: {found['failures']} failed, {found['unreadable']} unreadable, "
        f"{len(found['issues'])} issues"
    ]
    bad = [node for node in found["nodes"] if node["bad"]]
    if bad:
        out += ["", "Bad nodes: culprits more often than chance would have it"]
        out += [
            f"  {clean(n['host'])}: in {n['culprit_in']} of its {n['jobs']} jobs, expected {n['expected']:.1f} "
            f"(chance {n['chance']:.1g})"
            for n in bad[:_NODES]
        ]
    growing = [row for row in found["categories"] if row["grows"]]
    if growing:
        out += ["", f"Growing: the last {found['days']} days beside the {found['days']} before"]
        out += [
            f"  {clean(c['category'])}: {c['days_before']} → {c['last_days']} (chance {c['chance']:.1g})"
            for c in growing
        ]
    out += ["", "Categories"]
    out += [f"  {row['logs']:>7}  {clean(row['category'])}" for row in found["categories"]]
    new = [row for row in found["issues"] if row["new"]]
    if 0 < len(new) < len(found["issues"]):
        out += ["", f"New since {found['since'][:10]}: {len(new)} issues", *_table(new)]
    if found["issues"]:
        out += ["", "Issues", *_table(found["issues"])]
    return "\n".join(out)


def _table(issues: list[dict[str, Any]]) -> list[str]:
    out = []
    for row in issues[:_ISSUES]:
        seen = f"{row['first_seen'][:10]} – {row['last_seen'][:10]}" if row["first_seen"] else ""
        where = clean(", ".join(each["host"] for each in row["hosts"][:3]))
        where += f", … ({row['culprit_hosts']})" if row["culprit_hosts"] > 3 else ""
        title = shorten(row["title"], 90)
        out.append(f"  {row['jobs']:>7}  {clean(row['category'] or '')}: {title}")
        ranks = rank_words(sorted(each["rank"] for each in row["ranks"]), 40)
        facts = (row["signature"], seen, f"retry {row['retry']}", where and f"on {where}", ranks)
        out.append("           " + "; ".join(filter(None, facts)))
    if len(issues) > _ISSUES:
        out.append(f"           … {len(issues) - _ISSUES} more in --json")
    return out
