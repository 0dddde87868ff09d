"""Old model against new on the same logs: both answer logs that they never saw.

The new one's answers come from held-out folds. The old one is asked, except about logs that it was trained on: of
those the model folder keeps how its own held-out answers were (`MARKS`), by a digest of log and label.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpclassify.diagnosis import decide
from ddpclassify.evaluation.metrics import mark
from ddpclassify.evaluation.prediction import from_dict
from ddpclassify.files import write_whole
from ddpclassify.model import answer
from ddpclassify.model.answers import Answers, Parts
from ddpclassify.train.samples import Sample

__all__ = ["FIGURES", "MARKS", "Figures", "figures", "marks_of_answers", "marks_of_model", "read_marks", "write_marks"]

MARKS = "held_out.txt"
FIGURES = ("category", "culprit", "evidence")
_UNASKED = "-"


def sample_key(sample: Sample) -> str:
    """Return a digest of a log and of what its label says: a corrected label makes another sample."""
    told = {k: sample.label.get(k) for k in ("category", "scope", "culprit_ranks", "evidence_lines")}
    return hashlib.sha256(f"{sample.key} {json.dumps(told, sort_keys=True)}".encode()).hexdigest()[:16]


def _marked(sample: Sample, answers: Answers, card: Mapping[str, Any]) -> str:
    """Mark one answer: a character each of `FIGURES`, ``1`` right, ``0`` wrong, ``-`` not labelled."""
    got = from_dict(decide(sample.described, answers, dict(card)).to_dict())
    m = mark([sample.labelled], [got])
    pairs = ((m["right"], [1]), (m["culprit"], m["culprit_asked"]), (m["evidence"], m["evidence_asked"]))
    return "".join(str(int(right[0])) if asked[0] else _UNASKED for right, asked in pairs)


def marks_of_answers(samples: Sequence[Sample], answers: Sequence[Answers], card: Mapping[str, Any]) -> dict[str, str]:
    """Return the marks of held-out answers, by `sample_key`."""
    return {sample_key(s): _marked(s, a, card) for s, a in zip(samples, answers, strict=True)}


def marks_of_model(
    samples: Sequence[Sample], parts: Parts, card: Mapping[str, Any], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the marks of a model; those of logs it was trained on are `known`."""
    found = {}
    for s in samples:
        key = sample_key(s)
        found[key] = known.get(key) or _marked(s, answer(s.described, parts), card)
    return found


def read_marks(folder: Path | None) -> dict[str, str]:
    """Return the held-out marks that a model folder keeps; none when it keeps none that can be read."""
    if folder is None:
        return {}
    try:
        rows = (line.split(" ") for line in (folder / MARKS).read_text("ascii").splitlines())
        return {row[0]: row[1] for row in rows if len(row) == 2 and len(row[1]) == len(FIGURES)}
    except (OSError, ValueError):
        return {}


def write_marks(folder: Path, marks: Mapping[str, str]) -> None:
    """Keep the held-out marks in a model folder."""
    write_whole(folder / MARKS, "".join(f"{key} {marks[key]}\n" for key in sorted(marks)))


@dataclass(frozen=True)
class Figures:
    """Of how many logs each of `FIGURES` is labelled, and of how many it is right."""

    right: tuple[int, ...]
    asked: tuple[int, ...]

    def share(self, index: int) -> float | None:
        """Return the share that is right; None where no label tells."""
        return self.right[index] / self.asked[index] if self.asked[index] else None

    @property
    def order(self) -> tuple[float, ...]:
        """What compares two models: the category first, then culprit, then evidence."""
        return tuple(self.share(i) or 0.0 for i in range(len(FIGURES)))

    def to_dict(self) -> dict[str, float | None]:
        """Return the shares by name."""
        return {name: self.share(i) for i, name in enumerate(FIGURES)}


def figures(marks: Mapping[str, str]) -> Figures:
    """Sum up the marks of some logs."""
    columns = range(len(FIGURES))
    return Figures(
        tuple(sum(m[i] == "1" for m in marks.values()) for i in columns),
        tuple(sum(m[i] != _UNASKED for m in marks.values()) for i in columns),
    )
