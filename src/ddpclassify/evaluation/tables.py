"""The figures of a benchmark as plain text, under 100 columns, and as JSON."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ddpclassify.corpus import Labelled
from ddpclassify.evaluation.calibration import of_named
from ddpclassify.evaluation.metrics import (
    METRICS,
    PAIRED,
    Estimate,
    Marks,
    answers,
    confusions,
    difference,
    estimate,
    mcnemar,
)
from ddpclassify.evaluation.prediction import Prediction
from ddpclassify.evaluation.runners import Run

__all__ = ["GROUPS", "errors", "to_json", "to_text"]

SCHEMA = "ddpclassify.benchmark/1"
GROUPS = ("category", "launcher", "provenance", "damage")
PAIRS = 15  # confusions shown a tool
_TOOLS_A_BLOCK = 4
_FIRST, _COLUMN = 18, 20
_NAMES = {
    "category_acc": "category right",
    "macro_f1": "macro F1",
    "culprit_exact": "culprit exact",
    "evidence_hit": "evidence hit",
    "confident": "confident",
    "confident_wrong": "confident, wrong",
    "top2_acc": "in first two",
}


def to_json(
    name: str, corpus: Sequence[Labelled], runs: Mapping[str, Run], marks: Mapping[str, Marks]
) -> dict[str, Any]:
    """Return all figures as one JSON object; NaN is null."""
    first = next(iter(marks))
    return {
        "schema": SCHEMA,
        "corpus": name,
        "logs": len(corpus),
        "tools": {
            tool: {
                "metrics": {metric: _estimate(estimate(metric, own)) for metric in METRICS},
                "reliability": of_named(own, runs[tool].predictions),
                "seconds_per_log": runs[tool].seconds,
                "unread": list(runs[tool].unread),
                "confusions": [
                    {"category": truth, "answer": given or None, "logs": n} for truth, given, n in confusions(own)
                ],
            }
            for tool, own in marks.items()
        },
        "comparisons": [_comparison(first, other, marks) for other in list(marks)[1:]],
        "groups": {
            key: {value: _group(members, marks) for value, members in groups.items()} for key, groups in _groups(corpus)
        },
    }


def _comparison(first: str, other: str, marks: Mapping[str, Marks]) -> dict[str, Any]:
    """Compare two tools: paired differences with their intervals, and McNemar's test of each metric of `PAIRED`."""
    metrics = [m for m in METRICS[:4] if answers(m, marks[first]) and answers(m, marks[other])]
    tests = {m: mcnemar(marks[first][PAIRED[m]], marks[other][PAIRED[m]]) for m in metrics if m in PAIRED}
    return {
        "first": first,
        "second": other,
        "differences": {m: _estimate(difference(m, marks[first], marks[other])) for m in metrics},
        "tests": {
            m: {"only_first_right": test.only_first, "only_second_right": test.only_second, "mcnemar_p": test.p}
            for m, test in tests.items()
        },
    }


def _group(members: list[int], marks: Mapping[str, Marks]) -> dict[str, Any]:
    chosen = {tool: own.select(members) for tool, own in marks.items()}
    metrics = ("category_acc", "culprit_exact", "evidence_hit")
    return {"logs": len(members)} | {
        tool: {metric: _number(estimate(metric, own, resamples=1).value) for metric in metrics}
        for tool, own in chosen.items()
    }


def _estimate(of: Estimate) -> dict[str, float | int | None]:
    return {"value": _number(of.value), "low": _number(of.low), "high": _number(of.high), "n": of.n}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _groups(corpus: Sequence[Labelled]) -> Iterator[tuple[str, dict[str, list[int]]]]:
    """Yield those of `GROUPS` that tell logs of this corpus apart, with each value's logs."""
    for key in GROUPS:
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for index, labelled in enumerate(corpus):
            value = labelled.category if key == "category" else labelled.row.get(key)
            groups["–" if value is None else str(value)].append(index)
        if len(groups) > 1:
            yield key, dict(sorted(groups.items()))


def to_text(name: str, corpus: Sequence[Labelled], runs: Mapping[str, Run], marks: Mapping[str, Marks]) -> list[str]:
    """Return all figures as lines of text."""
    lines = [f"{name}: {len(corpus)} logs, {len({x.category for x in corpus})} categories; 95 % intervals", ""]
    tools = list(marks)
    for start in range(0, len(tools), _TOOLS_A_BLOCK):
        lines += _scores(tools[start : start + _TOOLS_A_BLOCK], runs, marks)
    lines += _comparisons(marks)
    for tool, own in marks.items():
        if any(own.given) and (pairs := confusions(own)):
            lines += [f"{tool}: label → answer, most frequent first"]
            lines += [f"  {n:4}  {truth:18.18} → {given or '(no answer)'}" for truth, given, n in pairs[:PAIRS]]
            lines += [f"        and {len(pairs) - PAIRS} other pairs"] * (len(pairs) > PAIRS) + [""]
    for key, groups in _groups(corpus):
        lines += _group_table(key, groups, marks)
    return lines[:-1] if lines[-1] == "" else lines


def _scores(tools: list[str], runs: Mapping[str, Run], marks: Mapping[str, Marks]) -> list[str]:
    lines = [" " * _FIRST + "".join(f"{tool[: _COLUMN - 1]:>{_COLUMN}}" for tool in tools)]
    for metric in METRICS:
        cells = [_cell(estimate(metric, marks[tool])) for tool in tools]
        lines.append(f"{_NAMES[metric]:{_FIRST}}" + "".join(f"{cell:>{_COLUMN}}" for cell in cells))
    times = [runs[tool].seconds for tool in tools]
    lines.append(
        f"{'seconds a log':{_FIRST}}" + "".join(f"{'–' if t is None else f'{t:.3f}':>{_COLUMN}}" for t in times)
    )
    return [*lines, ""]


def _cell(of: Estimate) -> str:
    return "–" if math.isnan(of.value) else f"{of.value:.3f} {of.low:.2f}–{of.high:.2f}"


def _comparisons(marks: Mapping[str, Marks]) -> list[str]:
    """Return a line for each other tool and metric: the difference, who alone is right, McNemar's p."""
    first, *others = marks
    lines = []
    for other in others:
        found = _comparison(first, other, marks)
        for metric, test in found["tests"].items():
            gap = found["differences"][metric]
            name = f"{first} – {other}"
            lines.append(
                f"{name:{_FIRST + 2}}{_NAMES[metric]:16}{gap['value']:+.3f} ({gap['low']:+.2f} to {gap['high']:+.2f});"
                f" alone right {test['only_first_right']} : {test['only_second_right']}, p = {test['mcnemar_p']:.2g}"
            )
    return [*lines, ""] if lines else []


def _group_table(key: str, groups: Mapping[str, list[int]], marks: Mapping[str, Marks]) -> list[str]:
    """Return a table of category accuracy / culprit exact / evidence hit a tool, in percent."""
    tools = list(marks)[:_TOOLS_A_BLOCK]
    lines = [f"{'by ' + key:{_FIRST}}{'logs':>6}" + "".join(f"{tool[:15]:>17}" for tool in tools)]
    for value, members in groups.items():
        cells = []
        for tool in tools:
            own = marks[tool].select(members)
            metrics = ("category_acc", "culprit_exact", "evidence_hit")
            cells.append(" ".join(_percent(estimate(metric, own, resamples=1).value) for metric in metrics))
        lines.append(f"{value[: _FIRST - 1]:{_FIRST}}{len(members):6}" + "".join(f"{cell:>17}" for cell in cells))
    return [*lines, f"{'':{_FIRST}}(category, culprit, evidence in percent)", ""]


def _percent(value: float) -> str:
    return "   –" if math.isnan(value) else f"{100 * value:4.0f}"


def errors(
    tool: str, corpus: Sequence[Labelled], predictions: Sequence[Prediction], marks: Marks
) -> list[dict[str, Any]]:
    """Return what a tool has wrong: category, culprit or evidence."""
    out = []
    for i, (label, got) in enumerate(zip(corpus, predictions, strict=True)):
        wrong = [
            part
            for part, right, asked in (
                ("category", marks["right"][i], answers("category_acc", marks)),
                ("culprit", marks["culprit"][i], marks["culprit_asked"][i]),
                ("evidence", marks["evidence"][i], marks["evidence_asked"][i]),
            )
            if asked and not right
        ]
        if wrong:
            want = {
                "category": label.category,
                "scope": label.scope,
                "culprit_ranks": label.culprit_ranks,
                "evidence": list(label.evidence_lines),
            }
            answer = {
                "category": got.category or None,
                "confidence": got.confidence,
                "scope": got.scope or None,
                "culprit_ranks": got.culprit_ranks,
                "evidence": sorted(got.evidence),
            }
            out.append({"tool": tool, "log": label.log, "wrong": wrong, "label": want, "answer": answer})
    return out
