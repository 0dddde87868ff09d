"""What spoke for an answer and against it: each input's share of the difference between it and the next likely one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ddpclassify.diagnosis import possible_scopes
from ddpclassify.features import Described, Features
from ddpclassify.features.culprits import rank_features, scope_features
from ddpclassify.model import Answers
from ddpclassify.model.answers import Parts, category_features, category_words, ranked_causes
from ddpclassify.model.linear import Part
from ddpclassify.types import Diagnosis

KINDS = {
    "w": "word",
    "p": "two words",
    "q": "quoted word",
    "s": "part of a word",
    "e": "exception",
    "et": "part of the exception",
    "em": "module of the exception",
    "k": "statement",
    "o": "source file of the line",
    "l": "level",
    "f": "function on the stack",
    "f0": "innermost function",
    "fp": "package on the stack",
    "fm": "file on the stack",
    "fu": "innermost frame",
    "fa": "landmark on the stack",
    "cue": "cue",
    "other cue": "cue of another failure",
    "": "feature",
}
"""What a token of `features.words` is, by its mark; what a named feature is, by what stands before its ``=``."""
_WHOSE = {1: "answer", -1: "other"}
_SHOWN = 20  # terms for, and as many against; the rest is summed up


class Term(NamedTuple):
    """An input of a model, in words for people, with its share of a score.

    Where two failures or two ranks are compared, `of` tells whose it is, the answer's or the other one's: a failure may
    also be ahead for what the other one is.
    """

    kind: str
    name: str
    weight: float
    of: str = "both"


class Asked(NamedTuple):
    """One output of a model for one sample; the sign tells whether it speaks for the answer or for the other one."""

    sign: int
    words: Sequence[str]
    features: Features
    output: int


@dataclass(frozen=True)
class Comparison:
    """An answer beside the next likely one.

    Attributes
    ----------
    answer, over : the two; `over` is None where nothing else was possible
    score : how far the answer is ahead, as the logarithm of the odds; the intercept and all weights add up to it
    terms : weightiest first
    """

    answer: str | int
    over: str | int | None
    score: float
    intercept: float
    terms: tuple[Term, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object; ``rest`` sums up the terms beyond the weightiest."""
        spoke = {
            "for": [_row(t) for t in self.terms if t.weight > 0][:_SHOWN],
            "against": [_row(t) for t in self.terms if t.weight < 0][:_SHOWN],
        }
        score, intercept = round(self.score, 6), round(self.intercept, 6)
        rest = score - intercept - sum(t["weight"] for side in spoke.values() for t in side)
        found = {"answer": self.answer, "over": self.over, "score": score, "intercept": intercept}
        return {**found, **spoke, "rest": round(rest, 6)}


def _row(term: Term) -> dict[str, Any]:
    return {**term._asdict(), "weight": round(term.weight, 6)}


def explanation(described: Described, answers: Answers, parts: Parts, diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the JSON object of `comparisons`."""
    return {what: each.to_dict() for what, each in comparisons(described, answers, parts, diagnosis).items()}


def comparisons(described: Described, answers: Answers, parts: Parts, diagnosis: Diagnosis) -> dict[str, Comparison]:
    """Compare each answer of a diagnosis with the next likely one.

    Returns
    -------
    The category; the cause, by its signature, where there is a failure; the scope; the likeliest culprit beside the
    likeliest other rank, where some ranks failed.
    """
    cause, order = answers.cause, answers.order
    best, *others = sorted(answers.category, key=lambda c: -answers.category[c])
    words, features = category_words(described, cause), category_features(described, cause)
    out = {"category": _classes(parts.category, words, features, best, next(iter(others), None))}
    if order:
        out["cause"] = _compared(
            parts.cause,
            [Asked(s, described.tokens[i], described.places[i], 0) for s, i in zip((1, -1), order, strict=False)],
            *_pair([described.folded.failures[i].signature for i in order]),
        )
    causes = ranked_causes(described, cause)
    first = next(iter(causes), None)
    x = scope_features(described.folded, described.view, first, best, answers.category[best], answers.ranks)
    scopes = possible_scopes(answers, best)
    if scopes:
        other = max((s for s in scopes if s != diagnosis.scope), key=lambda s: scopes[s], default=None)
        out["scope"] = _classes(parts.scope, (), x, diagnosis.scope, other)
    if diagnosis.culprit_ranks:
        ranks = rank_features(described.folded, described.view, causes, best)
        named = set(diagnosis.culprit_ranks)
        likely = sorted(ranks, key=lambda r: (r not in named, -answers.ranks[r], r))
        pair = [likely[0], *[r for r in likely if r not in named][:1]]
        asked = [Asked(s, (), ranks[r], 0) for s, r in zip((1, -1), pair, strict=False)]
        out["rank"] = _compared(parts.rank, asked, *_pair(pair))
    return out


def _pair(likely: Sequence[str] | Sequence[int]) -> tuple[str | int, str | int | None]:
    return likely[0], likely[1] if len(likely) > 1 else None


def _classes(part: Part, words: Sequence[str], features: Features, answer: str, over: str | None) -> Comparison:
    """Compare two classes of one sample."""
    signed = [(sign, part.classes.index(name)) for sign, name in ((1, answer), (-1, over)) if name is not None]
    if len(part.classes) == 2:  # the one output is the second class's; the first one's score is 0
        signed = [(sign, 0) for sign, index in signed if index]
    return _compared(part, [Asked(sign, words, features, output) for sign, output in signed], answer, over)


def _compared(part: Part, asked: Sequence[Asked], answer: str | int, over: str | int | None) -> Comparison:
    score = intercept = 0.0
    weights: dict[str, float] = {}
    signs: dict[str, set[int]] = {}
    for sign, words, features, output in asked:
        scale = sign / part.temperature
        score += scale * part.scores(words, features)[output]
        intercept += scale * float(part.intercept[output])
        for name, weight in part.weights(words, features, output):
            weights[name] = weights.get(name, 0.0) + scale * weight
            signs.setdefault(name, set()).add(sign)
    two = len({id(each.features) for each in asked}) == 2
    terms = [
        _term(name, weight, _WHOSE[signs[name].pop()] if two and len(signs[name]) == 1 else "both")
        for name, weight in weights.items()
        if weight
    ]
    terms.sort(key=lambda t: -abs(t.weight))
    return Comparison(answer, over, score, intercept, tuple(terms))


def _term(name: str, weight: float, of: str = "both") -> Term:
    """Tell what an input is.

    >>> _term("e:OutOfMemoryError", 1.0)[:2], _term("k:exit:code=1", 1.0)[:2], _term("one exit", 1.0)[:2]
    (('exception', 'OutOfMemoryError'), ('statement', 'exit code=1'), ('feature', 'one exit'))
    """
    mark, colon, rest = name.partition(":")
    if colon and mark in KINDS:
        return Term(KINDS[mark], rest.replace(":", " ") if mark == "k" else rest, weight, of)
    mark, equals, rest = name.partition("=")
    if equals and mark in ("cue", "other cue"):
        return Term(KINDS[mark], rest, weight, of)
    return Term(KINDS[""], name.replace("&", " & "), weight, of)
