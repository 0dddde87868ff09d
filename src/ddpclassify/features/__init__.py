"""Features of a folded log: words and place of each failure, and the job seen rank by rank."""

from __future__ import annotations

from typing import NamedTuple

from ddpclassify.features.cues import cues
from ddpclassify.features.failures import Features, failure_features
from ddpclassify.features.view import View, view
from ddpclassify.features.words import words
from ddpclassify.types import Folded

__all__ = ["Described", "Features", "describe"]


class Described(NamedTuple):
    """A log ready for the models: `tokens[i]`, `places[i]` and `cues[i]` describe `folded.failures[i]`."""

    folded: Folded
    view: View
    tokens: tuple[list[str], ...]
    places: tuple[Features, ...]
    cues: tuple[dict[str, int], ...]


def describe(folded: Folded) -> Described:
    """Compute the features that do not depend on a model's answers."""
    seen = view(folded)
    return Described(
        folded,
        seen,
        tuple(words(f) for f in folded.failures),
        tuple(failure_features(folded, seen)),
        tuple(cues(f) for f in folded.failures),
    )
