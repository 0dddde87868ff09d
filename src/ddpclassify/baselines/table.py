"""The rule table: ``rules.toml`` as compiled patterns, and the decision about one line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ddpclassify.tables import read_toml

HARMLESS, SURVIVED, ECHO = "harmless", "survived", "echo"

# A line without any of these words decides nothing; the tests hold every rule's example to it.
_TRIGGER = re.compile(
    r"(?i)err|exception|fail|fatal|abort|kill|signal|sig[a-z]{3}\b|timed? ?out|timeout|nan\b|\binf|xid|oom|memory"
    r"|denied|no space|invalid|not found|no such|mismatch|undefined|cannot|can't|couldn|unable|lost|refused|reset"
    r"|closed|evict|preempt|cancel|interrupt|keyboard|exit|died|dead|missing|exceeded|terminat|corrupt|\^c|crash"
    r"|shape|rank|gpu|gai|nvidia|driver|cuda|heartbeat|warn|unexpected|raise|return|traceback|echo|zombie|omp_|nccl"
    r"|job|not |stop|limit|retry|skip|ignor|fallback|falling|in use|no module|differ|unreach|assert|segmentation"
    r"|instruction|truncat|unauthor|certificate|spot|notice|reclaim|hangup|leak|sched_|opal|libibverbs|expir"
    r"|slowdown|free\(|malloc|route|offline|panic|answer|unavailable|temporar|what\(|detected|broken|\bbad |removed"
    r"|full|quota|exhaust|empty|infeasible|infinit|requires|num_|dsa|debugging|corrected|overflow|continuing|label"
)


@dataclass(frozen=True)
class Rule:
    """One row of the table; see the guidelines at its head."""

    category: str
    pattern: re.Pattern[str]
    level: int
    scope: str
    near: re.Pattern[str] | None
    unless: str
    example: str


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """Return the table in its order."""
    rows = read_toml(Path(__file__).with_name("rules.toml"))["rule"]
    return tuple(
        Rule(
            category=row["category"],
            pattern=re.compile("|".join(row["any"]), re.IGNORECASE if row.get("ignore_case") else 0),
            level=row.get("level", 90),
            scope=row.get("scope", ""),
            near=re.compile(row["near"]) if "near" in row else None,
            unless=row.get("unless", ""),
            example=row["example"],
        )
        for row in rows
    )


@lru_cache(maxsize=8192)
def _matching(text: str) -> tuple[Rule, ...]:
    """Return the rules that match a text, up to the first that needs nothing more."""
    out: list[Rule] = []
    if _TRIGGER.search(text):
        for rule in rules():
            if rule.pattern.search(text):
                out.append(rule)
                if rule.near is None and not rule.unless:
                    break
    return tuple(out)


def decide(text: str, frames: str = "", marks: frozenset[str] | set[str] = frozenset()) -> Rule | None:
    """Return the rule that decides about a line, given the traceback it closes and the facts so far."""
    for rule in _matching(text):
        if rule.unless in marks or (rule.near and not rule.near.search(frames)):
            continue
        return rule
    return None
