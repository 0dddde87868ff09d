"""The terms that spoke for an answer and against it, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ddpclassify.language import say
from ddpclassify.report.words import clean, listed, place, rank_words
from ddpclassify.types import Diagnosis

WHAT = {"category": "category", "cause": "cause", "scope": "scope", "rank": "culprit"}
_FOR, _AGAINST = 5, 3


def told(d: Diagnosis) -> Iterator[tuple[str, list[str]]]:
    """Yield label and texts: for each answer what it was preferred to, and what spoke for and against it."""
    for what, compared in (d.explanation or {}).items():
        names = {
            "what": say(WHAT[what]),
            "answer": _named(d, what, compared["answer"]),
            "score": f"{compared['score']:+.2f}",
        }
        if compared["over"] is None:
            yield "why", [say("{what}: {answer}, {score} in all", **names)]
        else:
            over = _named(d, what, compared["over"])
            yield "why", [say("{what}: {answer} rather than {over}, {score} in all", over=over, **names)]
        yield "for", [_term(t) for t in compared["for"][:_FOR]]
        yield "against", [_term(t) for t in compared["against"][:_AGAINST]]


def _named(d: Diagnosis, what: str, answer: str | int) -> str:
    if what == "rank":
        return rank_words([int(answer)])
    if what == "cause":
        failure = next(f for f in d.failures if f["signature"] == answer)
        return listed((place(None, [failure["first_line"]]), rank_words(failure["ranks"], 30)))
    return clean(str(answer))


def _term(term: dict[str, Any]) -> str:
    told = f"{term['weight']:+.2f} {say(term['kind'])}{say(': ')}{clean(term['name'])}"
    return told + (say(" (of the other)") if term["of"] == "other" else "")
