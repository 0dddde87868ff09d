"""How right answers are that were given with about the same confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddpclassify.evaluation.metrics import UNKNOWN, Marks
from ddpclassify.evaluation.prediction import Prediction

__all__ = ["of_named", "reliability"]

Floats = NDArray[np.float64]


def of_named(marks: Marks, predictions: Sequence[Prediction]) -> dict[str, Any] | None:
    """Return the reliability of the answers that name a category with a confidence; None without any."""
    named = [i for i, got in enumerate(predictions) if got.category not in ("", UNKNOWN) and 0 < got.confidence <= 1]
    if not named:
        return None
    return reliability(np.array([predictions[i].confidence for i in named]), marks["right"][named])


def reliability(confidence: Floats, right: Floats, bins: int = 10) -> dict[str, Any]:
    """Return the reliability table of held-out answers and their expected calibration error (Naeini et al., 2015)."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    rows = [
        {
            "from": b / bins,
            "logs": int(here.sum()),
            "confidence": float(confidence[here].mean()),
            "right": float(right[here].mean()),
        }
        for b in range(bins)
        if (here := place == b).any()
    ]
    error = sum(row["logs"] * abs(row["confidence"] - row["right"]) for row in rows) / len(confidence)
    confident = [
        {"from": c, "share": float(here.mean()), "wrong": float(1 - right[here].mean())}
        for c in (0.5, 0.8, 0.9, 0.95)
        if (here := confidence >= c).any()
    ]
    return {"expected_calibration_error": float(error), "bins": rows, "confident": confident}
