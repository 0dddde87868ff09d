"""Train the models on labelled corpora."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddpclassify.train.fit import Settings, Training, fit
from ddpclassify.train.samples import Sample, load_samples

__all__ = ["Sample", "Settings", "Training", "fit", "load_samples", "write_model"]


def write_model(training: Training, samples: Sequence[Sample], folder: Path, name: str = "default") -> dict[str, Any]:
    """Write a trained model and its card; returns the card."""
    import numpy
    import sklearn

    from ddpclassify import __version__
    from ddpclassify.model import save

    rows = "\n".join(json.dumps(s.label, sort_keys=True) for s in samples)
    card = {
        "name": name,
        "version": __version__,
        "threshold": training.threshold,
        "corpus": {
            "logs": len(samples),
            "fingerprint": hashlib.sha256(rows.encode()).hexdigest()[:16],
            "categories": dict(sorted(Counter(s.label["category"] for s in samples).items())),
            "provenance": dict(sorted(Counter(str(s.label.get("provenance", "unknown")) for s in samples).items())),
        },
        "held_out": training.held_out,
        "libraries": {"numpy": numpy.__version__, "scikit-learn": sklearn.__version__},
    }
    return save(training.parts, card, folder)
