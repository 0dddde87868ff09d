"""Run the baselines and the model on a corpus."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ddpclassify.baselines import BASELINES
from ddpclassify.corpus import Labelled
from ddpclassify.corpus.lines import read_lines
from ddpclassify.evaluation.prediction import NO_ANSWER, Prediction, from_answer, from_dict
from ddpclassify.types import InputError

__all__ = ["Run", "run_baseline", "run_model"]

Tick = Callable[[str, int, int], None]  # told the tool, how many logs are done, of how many
_FIELDS = ("category", "confidence", "candidates", "scope", "culprit_ranks", "evidence")


@dataclass(frozen=True)
class Run:
    """A tool's answers on a corpus; `seconds` is the time a log, None where another program gave the answers."""

    predictions: list[Prediction]
    seconds: float | None = None
    unread: tuple[str, ...] = ()


class Model(Protocol):
    """What diagnoses one log; the answer has a diagnosis' attributes."""

    def diagnose(self, path: Path) -> Any:
        """Return the diagnosis of the log at `path`."""


def run_baseline(name: str, corpus: Sequence[Labelled], tick: Tick) -> Run:
    """Run the baseline `name` of `BASELINES`."""
    predict = BASELINES[name]

    def answer(path: Path) -> Prediction:
        lines, places = read_lines(path)
        return from_answer(predict(lines), places)

    return _run(name, answer, corpus, tick)


def run_model(model: Model, corpus: Sequence[Labelled], tick: Tick) -> Run:
    """Run a model."""

    def answer(path: Path) -> Prediction:
        diagnosis = model.diagnose(path)
        return from_dict({field: getattr(diagnosis, field, None) for field in _FIELDS})

    return _run("model", answer, corpus, tick)


def _run(name: str, answer: Callable[[Path], Prediction], corpus: Sequence[Labelled], tick: Tick) -> Run:
    predictions: list[Prediction] = []
    unread: list[str] = []
    start = time.perf_counter()
    for number, labelled in enumerate(corpus, 1):
        try:
            predictions.append(answer(labelled.path))
        except InputError as error:  # a log that can't be read is a wrong answer, not the end of the run
            predictions.append(NO_ANSWER)
            unread.append(str(error))
        tick(name, number, len(corpus))
    return Run(predictions, (time.perf_counter() - start) / max(1, len(corpus)), tuple(unread))
