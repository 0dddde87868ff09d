"""The estimator keeps scikit-learn's rules; those of `check_estimator` about arrays don't apply to logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_checks

from ddpclassify.train import Sample, load_samples
from ddpclassify.train.estimator import LogClassifier

CHECKS = ("no_attributes_set_in_init", "parameters_default_constructible", "get_params_invariance", "set_params")


@pytest.fixture
def logs(house: Callable[..., Path]) -> list[Sample]:
    return load_samples([house(each=4)], jobs=1)


@pytest.mark.parametrize("name", CHECKS)
def test_scikit_learns_checks(name: str) -> None:
    getattr(estimator_checks, f"check_{name}")("LogClassifier", LogClassifier())


def test_cross_validation_search_and_pipeline(logs: list[Sample]) -> None:
    y = [s.label["category"] for s in logs]
    groups = [s.group for s in logs]
    steps = Pipeline([("logs", clone(LogClassifier(min_df=1)))])
    assert cross_val_score(steps, logs, y, groups=groups, cv=GroupKFold(2)).min() == 1.0
    search = GridSearchCV(LogClassifier(), {"c_category": [1e-6, 0.3]}, cv=GroupKFold(2)).fit(logs, y, groups=groups)
    assert search.best_estimator_.predict(logs).tolist() == y
    assert search.predict_proba(logs).sum(axis=1) == pytest.approx(1.0)


def test_given_categories_count(logs: list[Sample]) -> None:
    y = ["ours" if "OutOfMemory" in str(s.described.tokens) else "theirs" for s in logs]
    fitted = LogClassifier().fit(logs, y)
    assert fitted.classes_.tolist() == ["ours", "theirs"]
    assert fitted.score(logs, y) == 1.0


def test_not_fitted(logs: list[Sample]) -> None:
    with pytest.raises(NotFittedError):
        LogClassifier().predict(logs)
