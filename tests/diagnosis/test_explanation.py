"""What spoke for an answer: the shares add up to what the models decided by, for every log and every model."""

from __future__ import annotations

import time
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddpclassify import load_model
from ddpclassify.api import Model
from ddpclassify.diagnosis import decide
from ddpclassify.diagnosis.explanation import KINDS, Comparison, comparisons
from ddpclassify.events import extract
from ddpclassify.features import Described, describe
from ddpclassify.fold import fold
from ddpclassify.model import Answers, answer
from ddpclassify.model.linear import Columns, Part
from ddpclassify.ranks import attribute
from ddpclassify.read import read

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*.log"))
HEALTHY = [f"[rank0]: epoch 0 step {i} loss {3 - i / 100:.3f}" for i in range(200)] + ["Training complete"]
LOGS: dict[str, Any] = {
    **{path.stem: path for path in CASES},
    "empty": [],
    "healthy": HEALTHY,
    "nothing known": ["the quick brown fox", "jumps over the lazy dog"],
    "one failure": ["ValueError: could not convert string to float: 'x'"],
    "4,096 ranks": [f"[rank{r}]: RuntimeError: CUDA error: an illegal memory access" for r in range(7, 4096, 3)]
    + ["world_size=4096"],
}


def compared(log: Any, model: Model) -> tuple[Described, Answers, dict[str, Comparison]]:
    described = describe(fold(extract(attribute(read(log)))))
    answers = answer(described, model.parts)
    return described, answers, comparisons(described, answers, model.parts, decide(described, answers, model.card))


@pytest.mark.parametrize("name", LOGS)
def test_the_shares_add_up_to_the_score_and_the_score_to_the_probabilities(name: str) -> None:
    _, answers, found = compared(LOGS[name], load_model())
    for each in found.values():
        assert each.intercept + sum(t.weight for t in each.terms) == pytest.approx(each.score, abs=1e-6)
    category, scope = found["category"], found["scope"]
    for part, probabilities in ((category, answers.category), (scope, answers.scope)):
        odds = log(probabilities[str(part.answer)] / probabilities[str(part.over)])
        assert part.score == pytest.approx(odds, abs=1e-6)
        assert (part.score >= 0) == (probabilities[str(part.answer)] >= probabilities[str(part.over)])
    assert ("cause" in found) == bool(answers.order)
    if len(answers.order) > 1:
        first, second = (log(p / (1 - p)) for p in (answers.cause[i] for i in answers.order[:2]))
        assert found["cause"].score == pytest.approx(first - second, abs=1e-6)


def test_the_culprit_stands_beside_the_likeliest_rank_that_is_none() -> None:
    _, answers, found = compared(LOGS["oom-one-of-eight-then-watchdogs"], load_model())
    rank = found["rank"]
    assert rank.answer == 5
    assert answers.ranks[int(rank.over or 0)] == max(p for r, p in answers.ranks.items() if r != 5)
    assert rank.terms[0].weight > 0


def test_a_model_of_two_categories_has_one_output_for_both() -> None:
    ours = load_model()
    names = {"exits": 0, "bias": 1}
    weights = Columns.of(np.array([[2.0, 0.5, -1.0]], np.float32))
    two = Part({"e:KeyError": 0}, names, [1.0], weights, [0.25], ("a", "b"), 0.5)
    model = Model(type(ours.parts)(**{**vars(ours.parts), "category": two}), {})
    for line, wanted in (("KeyError: 'x'", "b"), ("ValueError: x", "a")):
        _, answers, found = compared([line], model)
        category = found["category"]
        assert category.answer == wanted
        assert category.score == pytest.approx(log(answers.category[wanted] / (1 - answers.category[wanted])))
        assert category.intercept + sum(t.weight for t in category.terms) == pytest.approx(category.score, abs=1e-6)


def test_every_word_is_told_by_its_kind() -> None:
    """A kind of token that the table lacks would be called a feature."""
    described, _, _ = compared(CASES[0], load_model())
    marks = {word.partition(":")[0] for path in CASES for t in compared(path, load_model())[0].tokens for word in t}
    assert described.tokens
    assert marks <= set(KINDS)


def test_json_is_bounded_and_adds_up() -> None:
    found = load_model().diagnose(LOGS["oom-one-of-eight-then-watchdogs"], explain=True).to_dict()["explanation"]
    assert set(found) == {"category", "cause", "scope", "rank"}
    for each in found.values():
        shown = [*each["for"], *each["against"]]
        assert max(len(each["for"]), len(each["against"])) <= 20
        assert all(t["weight"] > 0 for t in each["for"])
        assert all(t["weight"] < 0 for t in each["against"])
        total = each["intercept"] + each["rest"] + sum(t["weight"] for t in shown)
        assert total == pytest.approx(each["score"], abs=2e-6)
    assert {"kind": "cue", "name": "cuda_oom"}.items() <= found["category"]["for"][0].items()
    # What only the other failure has may speak for the answer as well.
    assert {t["of"] for t in found["cause"]["for"]} >= {"answer", "other"}
    assert {t["of"] for t in found["category"]["for"]} == {"both"}


def test_it_is_there_only_when_asked_for() -> None:
    plain = load_model().diagnose(CASES[0])
    asked = load_model().diagnose(CASES[0], explain=True)
    assert "explanation" not in plain.to_dict()
    assert asked.to_dict().pop("explanation")
    assert {**asked.to_dict(), "explanation": None} == {**plain.to_dict(), "explanation": None}


def test_secrets_are_in_no_term() -> None:
    lines = ["ValueError: cannot log in: password=hunter2"]
    ours = load_model()
    terms = {f"{mark}:{word}": i for i, (mark, word) in enumerate([("w", "hunter"), ("w", "redacted")])}
    weights = Columns.of(np.arange(len(ours.parts.category.classes))[:, None] * np.ones((1, 2)))
    part = Part(terms, {}, [1.0, 1.0], weights, ours.parts.category.intercept, ours.parts.category.classes)
    model = Model(type(ours.parts)(**{**vars(ours.parts), "category": part}), {})
    assert "hunter" in str(model.diagnose(["ValueError: hunter"], explain=True).explanation)
    assert "hunter" not in str(model.diagnose(lines, redact=True, explain=True).explanation)


def test_of_4096_ranks_it_costs_little() -> None:
    start = time.process_time()
    load_model().diagnose(LOGS["4,096 ranks"])
    plain = time.process_time() - start
    load_model().diagnose(LOGS["4,096 ranks"], explain=True)
    assert time.process_time() - start - plain < 3 * plain + 0.5
