"""Labelled logs → described logs, in parallel and cached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpclassify.corpus import load_corpus
from ddpclassify.events import extract
from ddpclassify.features import Described, describe
from ddpclassify.fold import fold
from ddpclassify.ranks import attribute
from ddpclassify.read import read


@dataclass(frozen=True)
class Sample:
    """One labelled log: `label` is its row of ``labels.jsonl``, `group` keeps a template on one side of a split."""

    described: Described
    label: dict[str, Any]
    group: str

    @property
    def is_cause(self) -> list[bool]:
        """For each failure, whether one of its lines is a labelled evidence line."""
        wanted = {str(x) for x in self.label.get("evidence_lines") or ()}
        files = self.described.folded.events.log.files
        many = len(files) > 1
        out = []
        for failure in self.described.folded.failures:
            lines = [line for e in failure.events for line in (e.line, *e.more)]
            out.append(
                any(
                    (f"{files[line.file].name}:{line.number}" if many else str(line.number)) in wanted for line in lines
                )
            )
        return out


def pipeline(path: Path) -> Described:
    """Run all stages before the models on one log."""
    return describe(fold(extract(attribute(read(path)))))


def load_samples(corpora: list[Path], jobs: int = -1) -> list[Sample]:
    """Read and describe all logs of the corpora, using `jobs` processes.

    Raises
    ------
    InputError : a corpus that is none, or a log that can't be read
    """
    from joblib import Parallel, delayed

    labelled = [each for corpus in corpora for each in load_corpus(corpus)]
    described = Parallel(n_jobs=jobs, batch_size=8)(delayed(pipeline)(each.path) for each in labelled)
    return [
        Sample(d, {**each.row, "log": each.log, "category": each.category}, str(each.row.get("template") or each.log))
        for d, each in zip(described, labelled, strict=True)
    ]
