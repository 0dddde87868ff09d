"""Train the models on labelled corpora."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ddpclassify.train.fit import Training, fit
from ddpclassify.train.linear import Settings
from ddpclassify.train.samples import Sample, load_samples
from ddpclassify.types import InputError

__all__ = ["Sample", "Settings", "Training", "fit", "load_samples", "weights_of", "write_model"]


def weights_of(samples: Sequence[Sample], wanted: Mapping[str, float]) -> list[float]:
    """Return each log's weight: that of its corpus times that of its category, 1 where `wanted` names neither.

    Raises
    ------
    InputError : a name that is neither
    """
    names = {s.corpus for s in samples} | {s.label["category"] for s in samples}
    for name in wanted:
        if name not in names:
            corpora = ", ".join(sorted({s.corpus for s in samples}))
            raise InputError(f"--weight {name}: neither a corpus ({corpora}) nor a category of these logs")
    return [wanted.get(s.corpus, 1.0) * wanted.get(s.label["category"], 1.0) for s in samples]


def write_model(
    training: Training,
    samples: Sequence[Sample],
    folder: Path,
    name: str = "default",
    weights: Mapping[str, float] | None = None,
    categories: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a trained model and its card; returns the card.

    Parameters
    ----------
    weights : weight of some corpora and categories, for the card
    categories : a house's own categories and advice, in the form of `ddpclassify.taxonomy.load_file`

    Raises
    ------
    InputError : the folder can't be written
    """
    import numpy
    import sklearn

    from ddpclassify import __version__
    from ddpclassify.model import save

    rows = "\n".join(json.dumps([s.key, s.label], sort_keys=True) for s in samples)
    card = {
        "name": name,
        "version": __version__,
        "threshold": training.threshold,
        "corpus": {
            "logs": len(samples),
            "fingerprint": hashlib.sha256(rows.encode()).hexdigest()[:16],
            "corpora": dict(sorted(Counter(s.corpus for s in samples).items())),
            "weights": dict(sorted((weights or {}).items())),
            "categories": dict(sorted(Counter(s.label["category"] for s in samples).items())),
            "provenance": dict(sorted(Counter(str(s.label.get("provenance", "unknown")) for s in samples).items())),
        },
        "held_out": training.held_out,
        "libraries": {"numpy": numpy.__version__, "scikit-learn": sklearn.__version__},
        **({"categories": categories} if categories else {}),
    }
    try:
        return save(training.parts, card, folder)
    except OSError as error:
        raise InputError(f"{folder}: can't be written: {error.strerror or error}") from error
