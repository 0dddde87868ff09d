"""What held-out answers say of the confidence: how to scale it, from where to trust it, how right it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ddpclassify.model.linear import Array

__all__ = ["LEAST_RIGHT", "chow_threshold", "reliability", "temperature"]

LEAST_RIGHT = 0.45
"""Answers that are right less often are not given: two guesses in the report then say more than one name."""


def temperature(probabilities: Array, y: Sequence[int]) -> float:
    """Return the temperature that minimises the log loss of held-out probabilities (Guo et al., 2017)."""
    logits = np.log(np.clip(probabilities, 1e-12, 1))
    rows, best, value = np.arange(len(y)), 1.0, np.inf
    for t in np.geomspace(0.05, 4, 121):
        scaled = logits / t
        loss = float(
            np.mean(
                np.log(np.exp(scaled - scaled.max(1, keepdims=True)).sum(1)) + scaled.max(1) - scaled[rows, list(y)]
            )
        )
        if loss < value:
            best, value = float(t), loss
    return best


def chow_threshold(confidence: Array, right: Array) -> float:
    """Return the confidence below which fewer than `LEAST_RIGHT` of the answers are right (Chow, 1970).

    Parameters
    ----------
    confidence, right : held-out answers, and whether each is right; shape (n,)
    """
    order = np.argsort(-confidence, kind="stable")
    gain = np.cumsum(right[order] - LEAST_RIGHT)
    return float(round(confidence[order][int(gain.argmax())], 2))


def reliability(confidence: Array, right: Array, bins: int = 10) -> dict[str, Any]:
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
