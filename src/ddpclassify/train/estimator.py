"""Training as a scikit-learn estimator, for cross-validation and searches in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ddpclassify.api import default_folder, load_model
from ddpclassify.model import answer
from ddpclassify.model.linear import Array
from ddpclassify.train.fit import fit
from ddpclassify.train.linear import Settings
from ddpclassify.train.samples import Sample

__all__ = ["LogClassifier"]

_DEFAULT = Settings()


class LogClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Names the category of a log.

    Parameters
    ----------
    c_cause, c_category, c_reason, c_scope, c_rank : inverse regularisation of the five models
    min_df, max_terms : how often a word must occur, and how many words are kept

    Attributes
    ----------
    classes_ : categories, shape (n_classes,)
    training_ : all five models, with held-out figures

    Examples
    --------
    >>> from pathlib import Path
    >>> from ddpclassify.train import load_samples
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> logs = load_samples([Path("our-logs")])  # doctest: +SKIP
    >>> cross_val_score(  # doctest: +SKIP
    ...     LogClassifier(), logs, [s.label["category"] for s in logs],
    ...     groups=[s.group for s in logs], cv=GroupKFold(5),
    ... )
    """

    def __init__(
        self,
        c_cause: float = _DEFAULT.c_cause,
        c_category: float = _DEFAULT.c_category,
        c_reason: float = _DEFAULT.c_reason,
        c_scope: float = _DEFAULT.c_scope,
        c_rank: float = _DEFAULT.c_rank,
        min_df: int = _DEFAULT.min_df,
        max_terms: int = _DEFAULT.max_terms,
    ) -> None:
        self.c_cause = c_cause
        self.c_category = c_category
        self.c_reason = c_reason
        self.c_scope = c_scope
        self.c_rank = c_rank
        self.min_df = min_df
        self.max_terms = max_terms

    def fit(
        self, X: Sequence[Sample], y: Sequence[str] | None = None, sample_weight: Sequence[float] | None = None
    ) -> LogClassifier:
        """Fit all five models on logs, with the categories of their labels or those of `y`."""
        if y is not None:
            X = [replace(s, labelled=replace(s.labelled, category=str(c))) for s, c in zip(X, y, strict=True)]
        folder = default_folder()
        base = load_model(folder).parts if folder else None
        self.training_ = fit(X, Settings(**self.get_params()), sample_weight, base)
        self.classes_ = np.array(self.training_.parts.category.classes)
        return self

    def predict_proba(self, X: Sequence[Sample]) -> Array:
        """Return the probability of each category, shape (n_logs, n_classes)."""
        check_is_fitted(self)
        answers = [answer(each.described, self.training_.parts).category for each in X]
        return np.array([[found[name] for name in self.classes_] for found in answers])

    def predict(self, X: Sequence[Sample]) -> Any:
        """Return the likeliest category of each log, shape (n_logs,)."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]
