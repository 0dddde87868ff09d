"""A model file as scikit-learn objects, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from ddpclassify.features import Features
from ddpclassify.model.answers import Parts
from ddpclassify.model.linear import Part
from ddpclassify.train.linear import identity

__all__ = ["pipeline_of", "pipelines"]

Pair = tuple[list[str], Features]


def words_of(pairs: Sequence[Pair]) -> list[list[str]]:
    """Return the words of each sample."""
    return [words for words, _ in pairs]


def features_of(pairs: Sequence[Pair]) -> list[Features]:
    """Return the named features of each sample."""
    return [features for _, features in pairs]


def pipeline_of(part: Part) -> Pipeline:
    """Return a fitted pipeline that takes pairs of words and named features; it answers as `part` does.

    The temperature is in its weights. Those of the reason model compare inside a category only: ask its
    ``decision_function``, not its probabilities.
    """
    names = DictVectorizer(dtype=np.float64)
    names.feature_names_ = list(part.names)
    names.vocabulary_ = {name: i for i, name in enumerate(names.feature_names_)}
    inputs = [("names", Pipeline([("pick", FunctionTransformer(features_of)), ("vector", names)]))]
    if terms := list(part.terms):
        words = TfidfVectorizer(analyzer=identity, sublinear_tf=True, vocabulary={t: i for i, t in enumerate(terms)})
        words.idf_ = np.asarray(part.idf, np.float64)
        inputs.insert(0, ("words", Pipeline([("pick", FunctionTransformer(words_of)), ("vector", words)])))
    model = LogisticRegression()
    model.classes_ = np.array(part.classes)
    model.coef_ = _dense(part) / part.temperature
    model.intercept_ = np.asarray(part.intercept, np.float64) / part.temperature
    model.n_features_in_ = model.coef_.shape[1]
    return Pipeline([("inputs", FeatureUnion(inputs)), ("model", model)])


def _dense(part: Part) -> Any:
    out = np.zeros((len(part.intercept), len(part.terms) + len(part.names)))
    for index in range(out.shape[1]):
        for output, weight in part.coef[index]:
            out[output, index] = weight
    return out


def pipelines(parts: Parts) -> dict[str, Pipeline]:
    """Return the five models by their names."""
    return {name: pipeline_of(part) for name, part in vars(parts).items()}
