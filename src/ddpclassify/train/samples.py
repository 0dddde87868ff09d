"""Labelled logs → described logs, in parallel and cached."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpclassify.events import extract
from ddpclassify.features import Described, describe
from ddpclassify.fold import fold
from ddpclassify.ranks import attribute
from ddpclassify.read import read
from ddpclassify.types import InputError


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
    """Read and describe all logs of the corpora (folders with ``labels.jsonl``), using `jobs` processes.

    Raises
    ------
    InputError : a corpus without labels, or a row that names no readable log
    """
    from joblib import Parallel, delayed

    rows: list[tuple[Path, dict[str, Any]]] = []
    for corpus in corpora:
        try:
            text = (corpus / "labels.jsonl").read_text("utf-8")
        except OSError as error:
            raise InputError(f"{corpus}: {error.strerror}: a corpus is a folder with labels.jsonl") from error
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            row = json.loads(line)
            if not isinstance(row, dict) or "log" not in row or "category" not in row:
                raise InputError(f"{corpus}/labels.jsonl:{number}: a row needs at least log and category")
            rows.append((corpus / row["log"], row))
    described = Parallel(n_jobs=jobs, batch_size=8)(delayed(pipeline)(path) for path, _ in rows)
    return [Sample(d, row, str(row.get("template") or row["log"])) for d, (_, row) in zip(described, rows, strict=True)]
