"""The Python interface: load a model, diagnose logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpclassify.diagnosis import decide
from ddpclassify.events import extract
from ddpclassify.features import describe
from ddpclassify.fold import fold
from ddpclassify.model import answer, load
from ddpclassify.model.answers import Parts
from ddpclassify.ranks import attribute
from ddpclassify.read import read
from ddpclassify.redact import redact as without_secrets
from ddpclassify.types import Diagnosis, Folded, InputError

if TYPE_CHECKING:
    from ddpclassify.model.healthy import GoodRun

_HERE = Path(__file__).parent
_PLACES = (_HERE / "_models", _HERE.parent.parent / "models")  # in the wheel; in a checkout


@dataclass(frozen=True)
class Model:
    """A loaded model: `card` tells its version, corpus and figures."""

    parts: Parts
    card: dict[str, Any]

    def diagnose(
        self,
        log: str | Path | Iterable[str | bytes],
        *,
        redact: bool = False,
        explain: bool = False,
        healthy: Iterable[str | Path | GoodRun] = (),
    ) -> Diagnosis:
        """Diagnose one job's log.

        Parameters
        ----------
        log : a path (file, compressed file, folder of per-rank files), ``"-"``, or its lines
        redact : mask tokens, keys, passwords and e-mail addresses of the log
        explain : fill in `Diagnosis.explanation`: what spoke for the answer and against it, with its weight
        healthy : good runs of the same job: failures that they show as well count less

        Raises
        ------
        InputError : when the log, or one of a good run, can't be read
        """
        return self.explain(log, redact=redact, weights=explain, healthy=healthy)[1]

    def good_run(self, log: str | Path | Iterable[str | bytes], *, redact: bool = False) -> GoodRun:
        """Return what a good run shows, to be read once for many calls of `diagnose`.

        Its `category` tells what the model says of the run: other than ``"no_failure"``, it may be no good one.
        """
        from ddpclassify.model.healthy import GoodRun

        folded, diagnosis = self.explain(log, redact=redact)
        return GoodRun.of(folded, diagnosis.category)

    def explain(
        self,
        log: str | Path | Iterable[str | bytes],
        *,
        redact: bool = False,
        weights: bool = False,
        healthy: Iterable[str | Path | GoodRun] = (),
    ) -> tuple[Folded, Diagnosis]:
        """Diagnose one log as `diagnose` does, and return its failures and kept lines as well.

        With `weights` the diagnosis has its `explanation`.
        """
        excerpt = read(log)
        described = describe(fold(extract(attribute(without_secrets(excerpt) if redact else excerpt))))
        if runs := list(healthy):
            from ddpclassify.model.healthy import GoodRun, set_apart

            good = [run if isinstance(run, GoodRun) else self.good_run(run, redact=redact) for run in runs]
            described = set_apart(described, self.parts, good)
        answers = answer(described, self.parts)
        diagnosis = decide(described, answers, self.card)
        if weights:
            from ddpclassify.diagnosis.explanation import explanation

            diagnosis.explanation = explanation(described, answers, self.parts, diagnosis)
        return described.folded, diagnosis


@cache
def load_model(path: str | Path | None = None) -> Model:
    """Load a model folder; without a path the one that comes with the package.

    Raises
    ------
    InputError : missing or damaged, or of a newer format
    """
    folder = default_folder() if path is None else Path(path)
    if folder is None:
        raise InputError(
            "no model comes with this installation; train one with `ddpclassify train` and name it with --model"
        )
    return Model(*load(folder))


def default_folder() -> Path | None:
    """Return the folder of the model that comes with the package; None if this installation has none."""
    found = (place / "default" for place in _PLACES)
    return next((folder for folder in found if (folder / "card.json").is_file()), None)


def diagnose(
    log: str | Path | Iterable[str | bytes], *, explain: bool = False, healthy: Iterable[str | Path | GoodRun] = ()
) -> Diagnosis:
    """Diagnose one job's log with the model that comes with the package, as `Model.diagnose` does."""
    return load_model().diagnose(log, explain=explain, healthy=healthy)
