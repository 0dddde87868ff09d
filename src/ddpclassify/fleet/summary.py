"""What the logs of many jobs have in common, from the index."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from datetime import date, datetime, timedelta
from typing import Any

from ddpclassify.fleet.chance import LEVEL, grows, suspicious

__all__ = ["SCHEMA", "summarise"]

SCHEMA = "ddpclassify.fleet/1"

# Origins of failures that a node can bring about. Elsewhere the culprit's host is only where the bug came to light.
_OF_NODES = ("infrastructure", "communication", "resource", "environment")
_FAILED = "category IS NOT NULL AND category != 'no_failure'"
_KEPT_HOSTS = 10  # of an issue
_KEPT_NODES = 50


def summarise(db: sqlite3.Connection, since: str | None = None, days: int = 7) -> dict[str, Any]:
    """Return counts, issues, suspicious nodes, categories and days, as plain data for JSON.

    Parameters
    ----------
    since : issues first seen at that time or later are new; by default those of the last days
    days : how many last days are compared with as many before
    """
    logs, unreadable, failures, first, last = db.execute(
        f"SELECT count(*), count(error), total({_FAILED}), min(seen), max(seen) FROM logs"
    ).fetchone()
    edge = _back(last, days)
    since = since or edge
    return {
        "schema": SCHEMA,
        "logs": logs,
        "unreadable": unreadable,
        "failures": int(failures),
        "first_seen": first,
        "last_seen": last,
        "since": since,
        "days": days,
        "retry": dict(db.execute(f"SELECT retry, count(*) FROM logs WHERE {_FAILED} GROUP BY retry")),
        "categories": _categories(db, edge, _back(edge, days)),
        "nodes": _nodes(db),
        "issues": _issues(db, since),
        "by_day": _by_day(db),
    }


def _back(moment: str | None, days: int) -> str | None:
    if moment is None:
        return None
    return (datetime.fromisoformat(moment) - timedelta(days=days)).isoformat(timespec="seconds")


def _categories(db: sqlite3.Connection, edge: str | None, start: str | None) -> list[dict[str, Any]]:
    rows = db.execute(
        "SELECT category, count(*), total(seen > :edge), total(seen > :start AND seen <= :edge) FROM logs "
        "WHERE category IS NOT NULL GROUP BY category ORDER BY count(*) DESC, category",
        {"edge": edge, "start": start},
    ).fetchall()
    now, before = sum(row[2] for row in rows), sum(row[3] for row in rows)
    share = now / (now + before) if now + before else 0.0
    out = []
    for category, count, recent, earlier in rows:
        chance = 1.0 if category == "no_failure" else grows(int(recent), int(earlier), share, len(rows))
        out.append(
            {
                "category": category,
                "logs": count,
                "last_days": int(recent),
                "days_before": int(earlier),
                "grows": chance < LEVEL,
                "chance": chance,
            }
        )
    return out


def _nodes(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Hosts that are culprits more often than expected, least likely chance first."""
    marks = ", ".join("?" * len(_OF_NODES))
    blamed = dict(
        db.execute(
            f"SELECT host, count(*) FROM logs WHERE host IS NOT NULL AND {_FAILED} AND origin IN ({marks}) "
            "GROUP BY host",
            _OF_NODES,
        )
    )
    placed = db.execute("SELECT count(DISTINCT log) FROM places").fetchone()[0]
    rate = sum(blamed.values()) / placed if placed else 0.0
    share: dict[str, float] = {}
    jobs: dict[str, int] = {}
    hosts = 0
    for host, count, weight in db.execute(
        "SELECT host, count(*), sum(1.0 / n) FROM places JOIN (SELECT log, count(*) AS n FROM places GROUP BY log) "
        "USING (log) GROUP BY host"
    ):
        hosts += 1
        if host in blamed:
            share[host], jobs[host] = weight, count
    rows = [
        {
            "host": host,
            "culprit_in": seen,
            "jobs": jobs[host],
            "expected": round(rate * share[host], 3),
            "chance": (chance := suspicious(seen, rate * share[host], hosts)),
            "bad": chance < LEVEL,
        }
        for host, seen in blamed.items()
    ]
    return sorted(rows, key=lambda r: (r["chance"], -r["culprit_in"], r["host"]))[:_KEPT_NODES]


def _issues(db: sqlite3.Connection, since: str | None) -> list[dict[str, Any]]:
    issues: dict[str, dict[str, Any]] = {}
    for signature, title, why, jobs, first, last, example in db.execute(
        "SELECT signature, title, why, count(*), min(seen), max(seen), min(name) FROM logs JOIN issues ON "
        "issue = signature GROUP BY signature ORDER BY count(*) DESC, signature"
    ):
        issues[signature] = {
            "signature": signature,
            "title": title,
            "jobs": jobs,
            "first_seen": first,
            "last_seen": last,
            "new": bool(since and first and first >= since),
            "example": example,
            "why": json.loads(why),
        }
    for key, column in (("category", "category"), ("retry", "retry"), ("hosts", "host")):
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for signature, value, count in db.execute(
            f"SELECT issue, {column}, count(*) FROM logs WHERE issue IS NOT NULL AND {column} IS NOT NULL "
            f"GROUP BY issue, {column} ORDER BY {column}"
        ):
            counts[signature][value] = count
        for signature, row in issues.items():
            if key == "hosts":
                row["culprit_hosts"] = len(counts[signature])
                row["hosts"] = [{"host": h, "jobs": n} for h, n in counts[signature].most_common(_KEPT_HOSTS)]
            else:
                row[key] = next(iter(counts[signature].most_common(1)), (None,))[0]
    ranks: dict[str, Counter[int]] = defaultdict(Counter)
    when: dict[str, Counter[str]] = defaultdict(Counter)
    for signature, listed, seen in db.execute("SELECT issue, ranks, seen FROM logs WHERE issue IS NOT NULL"):
        ranks[signature].update(json.loads(listed))
        if seen:
            when[signature][seen[:10]] += 1
    for signature, row in issues.items():
        row["ranks"] = [{"rank": rank, "jobs": n} for rank, n in ranks[signature].most_common(_KEPT_HOSTS)]
        row["by_day"] = dict(sorted(when[signature].items()))
    return list(issues.values())


def _by_day(db: sqlite3.Connection) -> list[dict[str, Any]]:
    days: dict[str, dict[str, int]] = defaultdict(dict)
    for day, category, count in db.execute(
        "SELECT substr(seen, 1, 10), category, count(*) FROM logs WHERE seen IS NOT NULL AND category IS NOT NULL "
        "GROUP BY 1, 2 ORDER BY 1, 2"
    ):
        days[day][category] = count
    return [{"day": day, "categories": found} for day, found in days.items() if _is_day(day)]


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
