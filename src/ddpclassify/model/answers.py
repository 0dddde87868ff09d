"""What the five linear models of a model file say about one described log, before any of it becomes a diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ddpclassify.features import Described, Features
from ddpclassify.features.culprits import rank_features, scope_features
from ddpclassify.model.linear import Part
from ddpclassify.types import Failure

_CUED = 40  # failures of a log whose cues count
SCOPES = ("all", "launcher", "none", "ranks", "unknown")


class Answers(NamedTuple):
    """The models' answers for one log.

    Attributes
    ----------
    cause : score of each failure for being the cause, in the log's order, in (0, 1)
    category, scope : probability of each class
    ranks : rank → probability of being a culprit, given that some ranks are
    """

    cause: tuple[float, ...]
    category: dict[str, float]
    reason: str | None
    scope: dict[str, float]
    ranks: dict[int, float]

    @property
    def order(self) -> list[int]:
        """Indices of the failures, the likeliest cause first."""
        return order_of(self.cause)


def order_of(scores: Sequence[float]) -> list[int]:
    """Return indices by descending score; equal scores keep the log's order."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))


def category_words(described: Described, scores: Sequence[float]) -> list[str]:
    """Return the words of a log for the category: those of the likeliest cause."""
    return described.tokens[order_of(scores)[0]] if scores else []


def category_features(described: Described, scores: Sequence[float]) -> Features:
    """Return the structural features of a log for the category."""
    events, seen = described.folded.events, described.view
    best = max(scores, default=0.0)
    causes: list[Failure] = [described.folded.failures[i] for i in order_of(scores)[:1]]
    n = max(events.log.n_lines, 1)
    well = any(line.number > 0.8 * n for line in events.finished) and not seen.exits and seen.teardown_line > n
    x: Features = {
        "bias": 1.0,
        "best cause": best,
        "no cause": float(best < 0.3),
        "clear cause": float(best > 0.8),
        "no failures": float(not described.folded.failures),
        "finished mark": float(bool(events.finished)),
        "finished at the end": float(any(line.number > 0.8 * n for line in events.finished)),
        "progress at the end": float(events.last_progress_line > n - 10),
        "ended well": 3.0 * bool(well),
        "ended well, its cause recovered": 3.0 * bool(well and causes and causes[0].recovered),
        "exits": float(bool(seen.exits)),
        "teardown": float(seen.teardown_line <= n),
        "waiters": float(bool(seen.waiting)),
        "silent": float(bool(seen.silent)),
        "odd": float(bool(seen.odd)),
        "behind": float(bool(seen.behind)),
        "named": float(bool(seen.named)),
        "one rank's cause": float(bool(causes) and len(causes[0].ranks) == 1),
        "cause recovered": float(bool(causes) and causes[0].recovered),
        "had progress": float(bool(events.progress)),
    }
    for exit in list(seen.exits.values())[:64]:
        x[f"exit={exit.code}"] = 1.0
    for name in events.log.facts.launchers:
        x[f"launcher={name}"] = 1.0
    for place, index in enumerate(order_of(scores)[:_CUED]):
        for category, count in described.cues[index].items():
            x[f"{'other ' if place else ''}cue={category}"] = 1.0 if place else 2 * min(count, 3) ** 0.5
    # Words make a vector of length 1; the few named features must not outweigh them.
    return {k: 0.5 * v for k, v in x.items() if v}


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """The linear models of a model file, by their task."""

    cause: Part
    category: Part
    reason: Part
    scope: Part
    rank: Part


def answer(described: Described, parts: Parts) -> Answers:
    """Ask the models about one log."""
    cause = tuple(
        parts.cause.probabilities(words, place)[1]
        for words, place in zip(described.tokens, described.places, strict=True)
    )
    words, features = category_words(described, cause), category_features(described, cause)
    category = _named(parts.category, parts.category.probabilities(words, features))
    best = max(category, key=lambda c: category[c])
    scope, ranks = culprits(described, cause, best, category[best], parts.scope, parts.rank)
    return Answers(cause, category, _reason(parts.reason, words, features, best), scope, ranks)


def culprits(
    described: Described, cause: Sequence[float], category: str, certainty: float, scope: Part, rank: Part
) -> tuple[dict[str, float], dict[int, float]]:
    """Ask the culprit models: probabilities of the scopes, and of each rank."""
    causes = ranked_causes(described, cause)
    features = rank_features(described.folded, described.view, causes, category)
    ranks = {r: rank.probabilities((), f)[1] for r, f in features.items()}
    first = causes[0] if causes else None
    x = scope_features(described.folded, described.view, first, category, certainty, ranks)
    return _named(scope, scope.probabilities((), x)), ranks


def ranked_causes(described: Described, scores: Sequence[float]) -> list[Failure]:
    """Return the failures that may be the cause, the likeliest first."""
    return [described.folded.failures[i] for i in order_of(scores)[:3]]


def _named(part: Part, probabilities: list[float]) -> dict[str, float]:
    return dict(zip(part.classes, probabilities, strict=True))


def _reason(part: Part, words: list[str], features: Features, category: str) -> str | None:
    """The likeliest reason inside the category; classes of the reason model read ``category/reason``."""
    scores = part.scores(words, features)
    inside = [i for i, name in enumerate(part.classes) if name.startswith(category + "/")]
    if not inside:
        return None
    best = max(inside, key=lambda i: scores[i])
    return part.classes[best].partition("/")[2]
