"""The rule baseline: ordered patterns over all categories, and the reasoning about ranks that rules can do.

1. Every line is freed of its prefixes and decided by the first matching rule of ``rules.toml``.
2. Lines before the last restart, lines that training survived and outer exceptions of a chain are set aside.
3. The first line of the best level names the category; equal lines on other ranks tell the scope.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddpclassify.baselines import Answer
from ddpclassify.baselines.blame import blame, rank_of
from ddpclassify.baselines.facts import Facts
from ddpclassify.baselines.table import ECHO, HARMLESS, SURVIVED, Rule, decide
from ddpclassify.baselines.writers import Line, Writers

__all__ = ["predict"]

MAX_EVIDENCE = 5
SYMPTOM = 30  # from this level on a line may have a cause of its own
STATUS = 40
CHAINED = 16  # an outer exception of a chain stands this much lower than its own level
CAUGHT = 8  # and a traceback after a log line: the process may have gone on
MILD = 25  # and a line that calls itself a warning
# How often, by the author's guess, the category is right when a line of up to this level decided.
_CONFIDENCE = ((10, 0.95), (15, 0.9), (22, 0.85), (29, 0.8), (34, 0.7), (45, 0.6), (99, 0.4))
_MILD = re.compile(r"\b(?:WARN(?:ING)?|INFO|DEBUG|warning)\b(?<!NCCL WARN)")
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?|/[\w./-]+")


@dataclass(slots=True)
class Hit:
    """A line that a rule took, with its level after the context is known."""

    line: Line
    rule: Rule
    level: int

    @property
    def shape(self) -> str:
        """The text with numbers and paths masked: equal on ranks that fail alike."""
        return _VARIABLE.sub("#", self.line.text).strip()[:300]


def predict(lines: list[str]) -> Answer:
    """Diagnose one log.

    >>> predict(["[rank0]: NameError: name 'c' is not defined", "[rank1]: NameError: name 'c' is not defined"])
    Answer(category='code_error', scope='all', culprit_ranks=(), evidence_lines=(1, 2), confidence=0.85)
    """
    hits, echoes, facts = _read(lines)
    hits = _last_attempt(hits, facts)
    alive = [hit for hit in hits if not _survived(hit, facts)]
    hits = alive or (hits if facts.failed else [])
    best = min(hits, key=lambda hit: (hit.level, hit.line.number), default=None)
    if best is None or (best.level >= SYMPTOM and facts.done and not facts.failed):
        if facts.failed and not (facts.done > facts.failed):
            return _unexplained(echoes, facts)
        return Answer("no_failure", "none", confidence=0.9 if facts.done else 0.6)
    alike = [hit for hit in hits if hit.rule.category == best.rule.category and hit.level <= best.level + 3]
    same = [hit for hit in alike if hit.shape == best.shape and hit.level == best.level] or [best]
    judged = blame(best.rule.category, best.rule.scope, [h.line for h in same], [h.line for h in alike], facts)
    evidence = _evidence(judged.line, [*same, *alike], facts)
    confidence = next(value for level, value in _CONFIDENCE if best.level <= level)
    rivals = {hit.rule.category for hit in hits if hit.level == best.level}
    return Answer(
        judged.category or best.rule.category,
        judged.scope,
        judged.ranks,
        evidence,
        round(confidence * (1 if len(rivals) == 1 else 0.8), 3),
    )


def _read(lines: list[str]) -> tuple[list[Hit], list[Line], Facts]:
    writers, facts = Writers(), Facts()
    hits: list[Hit] = []
    echoes: list[Line] = []
    for number, raw in enumerate(lines, 1):
        for line in writers.read(number, raw):
            facts.read(line)
            rule = decide(line.text, line.frames, facts.marks)
            if rule is None or rule.category in (HARMLESS, SURVIVED) or _announced(line.preface):
                continue
            if rule.category == ECHO:
                echoes.append(line)
            else:
                hits.append(Hit(line, rule, _level(rule, line)))
    return hits, echoes, facts


def _announced(preface: str) -> bool:
    """Say whether the line before a traceback announces that the process goes on."""
    rule = decide(preface) if preface else None
    return rule is not None and rule.category == SURVIVED


def _level(rule: Rule, line: Line) -> int:
    """Return the level of a line in its context."""
    mild = not rule.scope and bool(_MILD.search(line.text, 0, 120))
    return rule.level + CHAINED * line.chained + CAUGHT * line.logged + MILD * mild


def _last_attempt(hits: list[Hit], facts: Facts) -> list[Hit]:
    """Keep what follows the last restart, unless nothing does and the job did not recover either."""
    late = [hit for hit in hits if hit.line.number > facts.restart]
    if not facts.restart or facts.done > facts.restart or any(hit.level < STATUS for hit in late):
        return late
    return hits


def _survived(hit: Hit, facts: Facts) -> bool:
    if hit.level >= STATUS and not hit.line.logged:
        return False
    if hit.line.logged and facts.done > hit.line.number and not facts.failed:
        return True
    return facts.resumed(hit.line.number, hit.line.logged)


def _unexplained(echoes: list[Line], facts: Facts) -> Answer:
    """Answer for a job that failed without a word of why: a bug is the commonest cause."""
    evidence = tuple(dict.fromkeys(line.number for line in echoes))[:MAX_EVIDENCE]
    judged = blame("code_error", "", [], [], facts)
    return Answer("code_error", judged.scope, judged.ranks, evidence, 0.2)


def _evidence(first: int | None, hits: list[Hit], facts: Facts) -> tuple[int, ...]:
    """Pick the judge's line, then one line a rank, then other wordings, each once."""
    numbers = [] if first is None else [first]
    met: set[tuple[int | None, str]] = set()
    for hit in hits:
        key = (rank_of(hit.line, facts), hit.shape)
        if key not in met:
            met.add(key)
            numbers.append(hit.line.number)
    return tuple(dict.fromkeys(numbers))[:MAX_EVIDENCE]
