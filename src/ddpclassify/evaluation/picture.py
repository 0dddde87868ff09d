"""A benchmark as one SVG picture: a tool's confusion matrix, and how right its confident answers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ddpclassify.evaluation.calibration import of_named
from ddpclassify.evaluation.metrics import Marks
from ddpclassify.evaluation.prediction import Prediction
from ddpclassify.page.markup import Html, tag

__all__ = ["picture"]

_CELL, _NAMES, _ABOVE, _PLOT = 22, 150, 150, 320
_STYLE = (
    "text{font:11px sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}.cell{fill:#08519c}"
    ".light{fill:#fff}.axis{stroke:#999;fill:none}.ideal{stroke:#999;stroke-dasharray:4}.bar{fill:#3182bd}"
)


def picture(tool: str, marks: Marks, predictions: Sequence[Prediction]) -> str:
    """Return the picture as the text of an SVG file."""
    shown = sorted({*marks.truth, *marks.given})
    side = len(shown) * _CELL
    height = _ABOVE + max(side, _PLOT) + 60
    width = _NAMES + side + 100 + _PLOT
    parts = [
        tag("style", Html(_STYLE)),
        tag("rect", width=width, height=height, fill="#fff"),
        tag("text", f"{tool}: {len(marks)} logs", x=8, y=20, class_="title"),
        *_matrix(marks, shown),
        *_reliability(of_named(marks, predictions), left=_NAMES + side + 80),
    ]
    found = tag("svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", width=width)
    return f"{found}\n"


def _matrix(marks: Marks, shown: list[str]) -> list[Html]:
    """Rows are labels, columns answers; the darker, the larger the share of the label's logs."""
    counts, totals = Counter(zip(marks.truth, marks.given, strict=True)), Counter(marks.truth)
    parts = [tag("text", "label ↓   answer →", x=8, y=_ABOVE - 8)]
    for i, name in enumerate(shown):
        at = i * _CELL + _CELL / 2
        named = name or "(no answer)"
        parts.append(tag("text", named, x=_NAMES - 6, y=_ABOVE + at + 4, text_anchor="end"))
        x, y = _NAMES + at + 4, _ABOVE - 6
        parts.append(tag("text", named, x=x, y=y, transform=f"rotate(-60 {x} {y})"))
    for (truth, given), n in sorted(counts.items()):
        share = n / totals[truth]
        x, y = _NAMES + shown.index(given) * _CELL, _ABOVE + shown.index(truth) * _CELL
        what = tag("title", f"{truth} → {given or '(no answer)'}: {n} of {totals[truth]}")
        box = tag("rect", what, x=x, y=y, width=_CELL - 1, height=_CELL - 1, class_="cell", fill_opacity=f"{share:.2f}")
        place = {"x": x + _CELL / 2 - 0.5, "y": y + _CELL / 2 + 3, "text_anchor": "middle"}
        parts += [box, tag("text", n, class_="light" if share > 0.5 else "", **place)]
    return parts


def _reliability(found: dict[str, Any] | None, left: float) -> list[Html]:
    """Bars of a tenth: of the answers given with about this confidence, how many are right; best on the diagonal."""
    if found is None:
        return []
    bottom = _ABOVE + _PLOT
    error = f"expected calibration error {found['expected_calibration_error']:.3f}"
    parts = [
        tag("text", f"right, by confidence of the answer; {error}", x=left, y=_ABOVE - 12),
        tag("rect", x=left, y=_ABOVE, width=_PLOT, height=_PLOT, class_="axis"),
    ]
    for each in found["bins"]:
        x, height = left + each["from"] * _PLOT, each["right"] * _PLOT
        what = tag("title", f"from {each['from']:.1f}: {each['right']:.2f} of {each['logs']} logs right")
        size = {"width": _PLOT / 10 - 2, "height": f"{height:.1f}"}
        parts.append(tag("rect", what, x=f"{x + 1:.1f}", y=f"{bottom - height:.1f}", class_="bar", **size))
        parts.append(tag("text", each["logs"], x=f"{x + 4:.1f}", y=bottom + 30))
    parts += [tag("text", f"{i / 10:.1f}", x=left + i * _PLOT / 10, y=bottom + 15) for i in range(0, 11, 5)]
    parts.append(tag("text", "logs", x=left - 30, y=bottom + 30))
    return [*parts, tag("line", x1=left, y1=bottom, x2=left + _PLOT, y2=_ABOVE, class_="ideal")]
