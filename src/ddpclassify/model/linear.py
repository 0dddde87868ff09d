"""Linear models over TF-IDF words and named features, evaluated with numpy alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """One linear model of a model file.

    Words enter as sublinear TF-IDF, :math:`(1 + \\ln tf) \\cdot idf`, scaled to unit length, with scikit-learn's
    smoothed :math:`idf = \\ln((1 + n) / (1 + df)) + 1`; named features enter as they are.

    Attributes
    ----------
    terms, names : index of each word, and of each named feature (the latter counted on from the words)
    idf : shape (len(terms),)
    coef : shape (n_outputs, len(terms) + len(names)); one output for two classes
    intercept : shape (n_outputs,)
    classes : names of the classes; of two, the second is the positive one
    temperature : divides the scores before they become probabilities (Guo et al., 2017)
    """

    terms: Mapping[str, int]
    names: Mapping[str, int]
    idf: Array
    coef: npt.NDArray[np.float32]
    intercept: Array
    classes: tuple[str, ...]
    temperature: float = 1.0

    def vector(self, words: Iterable[str], features: Mapping[str, float]) -> tuple[npt.NDArray[np.intp], Array]:
        """Return the indices and values of a sample's non-zero inputs."""
        counts = Counter(i for w in words if (i := self.terms.get(w)) is not None)
        index = np.fromiter(counts.keys(), np.intp, len(counts))
        value = (1.0 + np.log(np.fromiter(counts.values(), np.float64, len(counts)))) * self.idf[index]
        if len(value):
            value /= np.sqrt(np.dot(value, value))
        named = [(len(self.terms) + j, v) for k, v in features.items() if (j := self.names.get(k)) is not None]
        more = np.array([i for i, _ in named], np.intp)
        return np.concatenate([index, more]), np.concatenate([value, np.array([v for _, v in named], np.float64)])

    def scores(self, words: Iterable[str], features: Mapping[str, float]) -> Array:
        """Return the decision scores, shape (n_outputs,)."""
        index, value = self.vector(words, features)
        return np.asarray(self.coef[:, index].astype(np.float64) @ value + self.intercept)

    def probabilities(self, words: Iterable[str], features: Mapping[str, float]) -> Array:
        """Return one probability a class, shape (len(classes),)."""
        scores = self.scores(words, features) / self.temperature
        if len(self.classes) == 2:
            scores = np.array([0.0, scores[0]])
        exponents = np.exp(scores - scores.max())
        return np.asarray(exponents / exponents.sum())

    def weights(self, words: Iterable[str], features: Mapping[str, float], output: int) -> list[tuple[str, float]]:
        """Return each input's share of one output's score, largest magnitude first."""
        index, value = self.vector(words, features)
        spelled = {i: w for w, i in self.terms.items()} | {len(self.terms) + i: n for n, i in self.names.items()}
        shares = [(spelled[int(i)], float(self.coef[output, i] * v)) for i, v in zip(index, value, strict=True)]
        return sorted(shares, key=lambda s: -abs(s[1]))
