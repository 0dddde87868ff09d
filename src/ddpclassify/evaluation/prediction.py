"""An answer in the form that the metrics read, whoever gave it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpclassify.baselines import Answer
from ddpclassify.foreign import from_json
from ddpclassify.types import InputError

__all__ = ["NO_ANSWER", "Prediction", "from_answer", "from_dict", "read_answers"]


@dataclass(frozen=True)
class Prediction:
    """What a tool says about one log.

    Attributes
    ----------
    category : empty where the tool gave no answer, which counts as wrong
    evidence : places of lines, ``"17"`` and, where the file is known, ``"stderr.log:17"``
    candidates : categories, likeliest first; empty where the tool gives only one
    """

    category: str
    scope: str = ""
    culprit_ranks: tuple[int, ...] = ()
    evidence: frozenset[str] = frozenset()
    confidence: float = 0.0
    candidates: tuple[str, ...] = ()


NO_ANSWER = Prediction("")


def from_dict(answer: Mapping[str, Any]) -> Prediction:
    """Return the prediction in a diagnosis as JSON; fields that are missing or of another form count as not said."""
    places = set()
    for each in _list(answer.get("evidence")):
        if isinstance(each, Mapping):
            places.add(str(each.get("line")))
            if each.get("file"):
                places.add(f"{each['file']}:{each.get('line')}")
    candidates = [each for each in _list(answer.get("candidates")) if isinstance(each, Mapping)]
    confidence = answer.get("confidence")
    return Prediction(
        category=str(answer.get("category") or ""),
        scope=str(answer.get("scope") or ""),
        culprit_ranks=tuple(sorted(rank for rank in _list(answer.get("culprit_ranks")) if isinstance(rank, int))),
        evidence=frozenset(places),
        confidence=float(confidence) if isinstance(confidence, (int, float)) else 0.0,
        candidates=tuple(str(each.get("category")) for each in candidates),
    )


def from_answer(answer: Answer, places: Sequence[tuple[str | None, int]] | None = None) -> Prediction:
    """Return the prediction in a baseline's answer; `places` gives file and number of each line it was shown."""
    evidence = set()
    for number in answer.evidence_lines:
        file, line = places[number - 1] if places else (None, number)
        evidence |= {str(line)} if file is None else {str(line), f"{file}:{line}"}
    return Prediction(
        answer.category, answer.scope, answer.culprit_ranks, frozenset(evidence), answer.confidence, candidates=()
    )


def read_answers(path: Path, logs: Iterable[str]) -> list[Prediction]:
    """Return another tool's answers: JSON Lines, in the order of the corpus, or each with the name of its ``log``.

    Raises
    ------
    InputError : a row that is no JSON object, or answers that don't fit the logs
    """
    wanted = list(logs)
    rows: list[Mapping[str, Any]] = []
    try:
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = from_json(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}:{number}: not JSON: {error.msg}, column {error.colno}") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: an answer must be a JSON object")
        rows.append(row)
    if rows and all(isinstance(row.get("log"), str) for row in rows):
        by_log = {str(row["log"]): row for row in rows}
        if missing := [log for log in wanted if log not in by_log]:
            raise InputError(f"{path}: no answer for {missing[0]} ({len(missing)} logs have none)")
        return [from_dict(by_log[log]) for log in wanted]
    if len(rows) != len(wanted):
        raise InputError(f"{path}: {len(rows)} answers for {len(wanted)} logs")
    return [from_dict(row) for row in rows]


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []
