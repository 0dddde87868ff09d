"""What held-out answers say of the confidence: how to scale it, and from where to trust it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ddpclassify.model.linear import Array

__all__ = ["LEAST_RIGHT", "chow_threshold", "temperature"]

LEAST_RIGHT = 0.4
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
    kept = int(np.cumsum(right[order] - LEAST_RIGHT).argmax()) + 1
    if kept == len(order):  # no answer was too weak: held to what calibrated ones would be
        return min(LEAST_RIGHT, float(confidence[order][-1]))
    return float(round(confidence[order][kept - 1 : kept + 1].mean(), 4))
