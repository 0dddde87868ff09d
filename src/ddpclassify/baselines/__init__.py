"""What the models are measured against: a guide's look-up table, the best ordered rules we could write, and for the
culprit the launcher's own table and the first rank that reports.

Neither shares code with the product's own stages, so that a mistake there can't help or hurt both sides at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["BASELINES", "Answer"]


@dataclass(frozen=True)
class Answer:
    """A baseline's diagnosis of one log.

    Attributes
    ----------
    category, scope : identifiers of the taxonomy; the category may be ``"unknown"``, or empty where none is named
    culprit_ranks : sorted global ranks, empty unless `scope` is ``"ranks"``
    evidence_lines : 1-based numbers of up to five lines, best first
    confidence : the author's guess in [0, 1]; nothing is fitted
    """

    category: str
    scope: str
    culprit_ranks: tuple[int, ...] = ()
    evidence_lines: tuple[int, ...] = ()
    confidence: float = 0.0


def _guide(lines: list[str]) -> Answer:
    from ddpclassify.baselines.guide import predict

    return predict(lines)


def _rules(lines: list[str]) -> Answer:
    from ddpclassify.baselines.rules import predict

    return predict(lines)


def _launcher(lines: list[str]) -> Answer:
    from ddpclassify.baselines.culprit import launcher_table

    return launcher_table(lines)


def _first(lines: list[str]) -> Answer:
    from ddpclassify.baselines.culprit import first_reporting

    return first_reporting(lines)


BASELINES: dict[str, Callable[[list[str]], Answer]] = {
    "rules": _rules,
    "guide": _guide,
    "launcher": _launcher,
    "first": _first,
}
"""``launcher`` and ``first`` name a culprit only."""
