"""Linear models over TF-IDF words and named features, evaluated in plain Python.

A log has a few hundred words, and a word weighs on a few classes: importing numpy would take longer than all the
arithmetic of a diagnosis.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from typing import TYPE_CHECKING, Any

from ddpclassify.types import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]
else:  # a name for annotations, without the import
    Array = Any


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """A sparse matrix, read input by input.

    Attributes
    ----------
    starts : where each input's weights start in the other two; one more than inputs
    outputs, values : the output that each weight belongs to, and the weight
    """

    starts: Sequence[int]
    outputs: Sequence[int]
    values: Sequence[float]

    @classmethod
    def of(cls, dense: npt.NDArray[Any]) -> Columns:
        """Return the columns of an array of shape (n_outputs, n_inputs), as 32-bit floats."""
        import numpy as np

        inputs, outputs = np.nonzero(dense.T)
        starts = np.searchsorted(inputs, np.arange(dense.shape[1] + 1))
        return cls(
            array("I", starts.tolist()), array("H", outputs.tolist()), array("f", dense[outputs, inputs].tolist())
        )

    def __getitem__(self, index: int) -> Iterator[tuple[int, float]]:
        here = slice(self.starts[index], self.starts[index + 1])
        return zip(self.outputs[here], self.values[here], strict=True)


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """One linear model of a model file.

    Words enter as sublinear TF-IDF, :math:`(1 + \\ln tf) \\cdot idf`, scaled to unit length, with scikit-learn's
    smoothed :math:`idf = \\ln((1 + n) / (1 + df)) + 1`; named features enter as they are.

    Attributes
    ----------
    terms, names : index of each word, and of each named feature (the latter counted on from the words)
    idf : shape (len(terms),)
    coef : the weights of each input, first of the words, then of the named features
    intercept : shape (n_outputs,); one output for two classes
    classes : names of the classes; of two, the second is the positive one
    temperature : divides the scores before they become probabilities (Guo et al., 2017)
    """

    terms: Mapping[str, int]
    names: Mapping[str, int]
    idf: Sequence[float] | Array
    coef: Columns
    intercept: Sequence[float] | Array
    classes: tuple[str, ...]
    temperature: float = 1.0

    def vector(self, words: Iterable[str], features: Mapping[str, float]) -> list[tuple[int, float]]:
        """Return the index and value of each non-zero input of a sample."""
        counts = Counter(i for w in words if (i := self.terms.get(w)) is not None)
        values = [(i, (1.0 + log(n)) * self.idf[i]) for i, n in counts.items()]
        norm = sqrt(sum(v * v for _, v in values)) or 1.0  # a damaged model may weigh no word
        n_terms = len(self.terms)
        return [(i, v / norm) for i, v in values] + [
            (n_terms + j, v) for k, v in features.items() if (j := self.names.get(k)) is not None
        ]

    def scores(self, words: Iterable[str], features: Mapping[str, float]) -> list[float]:
        """Return the decision scores, shape (n_outputs,).

        Raises
        ------
        InputError : the weights are no numbers, or of outputs that the model does not have
        """
        out = [float(x) for x in self.intercept]
        try:
            for index, value in self.vector(words, features):
                for output, weight in self.coef[index]:
                    out[output] += weight * value
        except (ArithmeticError, LookupError, ValueError) as error:
            raise InputError(f"damaged model: {error}") from error
        if not all(map(isfinite, out)):
            raise InputError("damaged model: weights that are not finite")
        return out

    def probabilities(self, words: Iterable[str], features: Mapping[str, float]) -> list[float]:
        """Return one probability a class, shape (len(classes),)."""
        scores = [s / self.temperature for s in self.scores(words, features)]
        if len(self.classes) == 2:
            scores = [0.0, scores[0]]
        top = max(scores)
        exponents = [exp(s - top) for s in scores]
        total = sum(exponents)
        return [e / total for e in exponents]

    def weights(self, words: Iterable[str], features: Mapping[str, float], output: int) -> list[tuple[str, float]]:
        """Return each input's share of one output's score, largest magnitude first."""
        words = list(words)
        spelled = {i: w for w in words if (i := self.terms.get(w)) is not None}
        spelled |= {len(self.terms) + j: k for k in features if (j := self.names.get(k)) is not None}
        shares = [
            (spelled[index], dict(self.coef[index]).get(output, 0.0) * value)
            for index, value in self.vector(words, features)
        ]
        return sorted(shares, key=lambda s: -abs(s[1]))
