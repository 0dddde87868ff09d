"""``ddpclassify model``, and the models as scikit-learn's objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from click.testing import CliRunner, Result
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from ddpclassify import load_model
from ddpclassify.cli.model import model
from ddpclassify.features import Described
from ddpclassify.model import answer, load, save
from ddpclassify.model.answers import Parts, category_features, category_words
from ddpclassify.train.cache import pipeline
from ddpclassify.train.export import pipelines
from ddpclassify.train.linear import Settings, fit_one

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*.log"))[:6]
WORDS = [["a", "b", "a"], ["b", "c"], ["c"], ["a", "d", "d", "d"], ["unseen"], []] * 4
FEATURES = [{"x": 1.0, "y=1": 0.5}, {"x": -2.0}, {"z": 3.0}, {}, {"y=1": 1.0}, {"x": 0.25}] * 4


@pytest.fixture(scope="module")
def logs() -> list[Described]:
    return [pipeline(path) for path in CASES]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(model, list(map(str, arguments)))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", [LogisticRegression, partial(LinearSVC, dual="auto")], ids=["logistic", "svc"])
def test_the_file_answers_as_scikit_learns_own_pipeline(tmp_path: Path, classes: int, kind: Callable[..., Any]) -> None:
    y = [str(i % classes) for i in range(len(WORDS))]
    fitted = fit_one(WORDS, FEATURES, y, None, kind(C=1.0, random_state=0), Settings())
    part = fitted.part()
    save(Parts(part, part, part, part, part), {"name": "t"}, tmp_path)
    loaded = load(tmp_path)[0].category
    wanted = fitted.model.decision_function(fitted.matrix(WORDS, FEATURES)).reshape(len(y), -1)
    got = [loaded.scores(w, f) for w, f in zip(WORDS, FEATURES, strict=True)]
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9)
    if kind is LogisticRegression:
        wanted = fitted.model.predict_proba(fitted.matrix(WORDS, FEATURES))
        got = [loaded.probabilities(w, f) for w, f in zip(WORDS, FEATURES, strict=True)]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9)


def test_exported_pipelines_answer_as_the_model_does(logs: list[Described], tmp_path: Path) -> None:
    assert run("--export", "joblib", "-o", tmp_path / "m.joblib").exit_code == 0
    found = joblib.load(tmp_path / "m.joblib")
    parts = load_model().parts
    assert set(found) == set(vars(parts))
    answers = [answer(log, parts) for log in logs]
    pairs = [
        (category_words(log, a.cause), category_features(log, a.cause)) for log, a in zip(logs, answers, strict=True)
    ]
    wanted = [list(a.category.values()) for a in answers]
    np.testing.assert_allclose(found["category"].predict_proba(pairs), wanted, rtol=0, atol=1e-9)
    wanted_reasons = [parts.reason.scores(*pair) for pair in pairs]
    np.testing.assert_allclose(found["reason"].decision_function(pairs), wanted_reasons, rtol=0, atol=1e-9)
    for log, a in zip(logs, answers, strict=True):
        failures = list(zip(log.tokens, log.places, strict=True))
        np.testing.assert_allclose(found["cause"].predict_proba(failures)[:, 1], a.cause, rtol=0, atol=1e-9)
    assert set(pipelines(parts)["scope"].classes_) == set(parts.scope.classes)


def test_card_and_terms() -> None:
    shown = run().stdout
    assert "category_accuracy" in shown
    assert "sha256" in shown
    assert json.loads(run("--json").stdout) == load_model().card
    terms = json.loads(run("--terms", "cuda_oom", "--json").stdout)
    assert "w:memory" in terms
    assert list(terms.values()) == sorted(terms.values(), reverse=True)
    first = run("--terms", "cuda_oom").stdout.splitlines()[0].split(maxsplit=1)
    assert first[1] == next(iter(terms))


def test_wrong_usage(tmp_path: Path) -> None:
    assert run("--terms", "nonsense").exit_code == 2
    assert run("--export", "joblib").exit_code == 2
    assert "no readable model" in str(run(tmp_path).exception)


def test_a_card_moves_no_cursor(tmp_path: Path) -> None:
    parts, card = load(Path(__file__).parents[2] / "models" / "default")
    save(parts, card | {"name": "\x1b[2Jx", "note\x1b": "\x07"}, tmp_path)
    assert "\x1b" not in run(tmp_path).stdout
