"""One linear model over words and named features: fitted on all rows, and on the rows of other groups."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from ddpclassify.features import Features
from ddpclassify.model.linear import Array, Columns, Part

FOLDS = 5
FEW = 50
"""In fewer rows than this every word counts: hardly any comes twice."""
SEED = 20261201


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters; chosen by grouped cross-validation (see the model card)."""

    c_cause: float = 1.0
    c_category: float = 0.3
    c_reason: float = 4.0
    c_scope: float = 0.3
    c_rank: float = 1.0
    min_df: int = 2
    max_terms: int = 40_000
    dropout: float = 0.3  # share of words and features that the copies lack which the category learns from as well


def identity(words: list[str]) -> list[str]:
    """Pass ready-made words through scikit-learn's vectoriser."""
    return words


@dataclass
class Fitted:
    """A fitted estimator with its vectorisers."""

    words: TfidfVectorizer | None
    names: DictVectorizer
    model: LogisticRegression | LinearSVC

    @property
    def n_words(self) -> int:
        """Columns of the matrix that are words: the first ones."""
        return len(self.words.vocabulary_) if self.words is not None else 0

    def matrix(self, words: Sequence[list[str]], features: Sequence[Features]) -> Any:
        named = self.names.transform(features)
        return sparse.hstack([self.words.transform(words), named]).tocsr() if self.words is not None else named.tocsr()

    def probabilities(self, words: Sequence[list[str]], features: Sequence[Features]) -> Array:
        scores = self.model.decision_function(self.matrix(words, features))
        both = scores if scores.ndim == 2 else np.stack([np.zeros(len(scores)), scores], axis=1)
        return np.asarray(softmax(both, axis=1))

    def part(self, temperature: float = 1.0) -> Part:
        terms = {str(t): int(i) for t, i in self.words.vocabulary_.items()} if self.words is not None else {}
        terms = dict(sorted(terms.items(), key=lambda kv: kv[1]))
        idf = np.asarray(self.words.idf_, np.float64) if self.words is not None else np.zeros(0)
        names = {str(n): i for i, n in enumerate(self.names.get_feature_names_out())}
        return Part(
            terms,
            names,
            idf,
            Columns.of(self.model.coef_),
            np.asarray(self.model.intercept_, np.float64),
            tuple(map(str, self.model.classes_)),
            temperature,
        )


def fit_one(
    words: Sequence[list[str]] | None,
    features: Sequence[Features],
    y: Sequence[str],
    weight: Sequence[float] | None,
    model: LogisticRegression | LinearSVC,
    settings: Settings,
    dropout: float = 0.0,
) -> Fitted:
    """Fit one linear model over words and named features.

    With `dropout`, each row counts half, and a copy without that share of its words and features the other half: the
    model leans on several cues, none of which an unseen log need have.
    """
    vectors = None
    if words is not None and any(words):
        vectors = TfidfVectorizer(
            analyzer=identity,
            sublinear_tf=True,
            min_df=settings.min_df if len(words) >= FEW else 1,
            max_features=settings.max_terms,
            dtype=np.float64,
        )
        vectors.fit(words)
    names = DictVectorizer(dtype=np.float64)
    names.fit(features)
    fitted = Fitted(vectors, names, clone(model))
    with warnings.catch_warnings():  # a small corpus may well have many categories
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        x, k = fitted.matrix(words or (), features), list(y)
        if dropout:
            x, k = sparse.vstack([x, _thinned(x, dropout, fitted.n_words)]).tocsr(), k + k
            weight = [w / 2 for w in weight or [1.0] * len(y)] * 2
        fitted.model.fit(x, k, sample_weight=weight)
    # Stored as float32: round here, so that the file and the estimator give the same answers.
    fitted.model.coef_ = fitted.model.coef_.astype(np.float32).astype(np.float64)
    return fitted


def _thinned(x: Any, share: float, n_words: int) -> Any:
    """Return the rows without a share of their entries; what is left of the words has length 1 again."""
    copy = x.copy()
    copy.data *= np.random.default_rng(SEED).random(copy.nnz) >= share
    copy.eliminate_zeros()
    copy = copy.tocsc()
    return sparse.hstack([normalize(copy[:, :n_words]), copy[:, n_words:]])


def out_of_fold(
    words: Sequence[list[str]] | None,
    features: Sequence[Features],
    y: Sequence[str],
    weight: Sequence[float] | None,
    groups: Sequence[str],
    model: LogisticRegression | LinearSVC,
    settings: Settings,
    dropout: float = 0.0,
) -> tuple[Array, list[str]]:
    """Return probabilities for every row from models that saw no row of its group, and their classes.

    A class that those models did not see has 0.
    """
    classes = sorted(set(y))
    out = np.zeros((len(y), len(classes)))
    folds = GroupKFold(n_splits=min(FOLDS, len(set(groups))))

    def fold(train: Array, test: Array) -> tuple[Array, list[str], Array]:
        if len(only := {y[i] for i in train}) == 1:
            return test, list(only), np.ones((len(test), 1))
        fitted = fit_one(
            None if words is None else [words[i] for i in train],
            [features[i] for i in train],
            [y[i] for i in train],
            None if weight is None else [weight[i] for i in train],
            model,
            settings,
            dropout,
        )
        got = fitted.probabilities([] if words is None else [words[i] for i in test], [features[i] for i in test])
        return test, list(fitted.model.classes_), got

    splits = folds.split(np.zeros(len(y)), y, groups)
    for test, names, got in Parallel(n_jobs=-1)(delayed(fold)(*split) for split in splits):
        out[np.ix_(test, [classes.index(k) for k in names])] = got
    return out, classes


def blind(
    features: Sequence[Features],
    y: Sequence[str],
    weight: Sequence[float],
    groups: Sequence[str],
    model: LogisticRegression,
    settings: Settings,
) -> dict[str, Part]:
    """Return for each group a model that saw no row of it."""
    found: dict[str, Part] = {}
    folds = GroupKFold(n_splits=min(FOLDS, len(set(groups))))
    for train, test in folds.split(np.zeros(len(y)), y, groups):
        if len({y[i] for i in train}) > 1:
            x, k, w = ([rows[i] for i in train] for rows in (features, y, weight))
            part = fit_one(None, x, k, w, model, settings).part()
            found.update((groups[i], part) for i in test)
    return found
