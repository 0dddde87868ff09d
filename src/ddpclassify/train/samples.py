"""Labelled logs → described logs, in parallel and cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpclassify.corpus import Labelled, load_corpus
from ddpclassify.features import Described
from ddpclassify.train.cache import Progress, describe_logs, pipeline
from ddpclassify.types import InputError

__all__ = ["Sample", "corpus_name", "load_samples", "pipeline"]


@dataclass(frozen=True)
class Sample:
    """One labelled log.

    Attributes
    ----------
    labelled : the log's label
    group : keeps logs of one template, or of one incident, on one side of a split
    corpus : the name of its corpus
    key : digest of its content
    """

    described: Described
    labelled: Labelled
    group: str
    corpus: str = ""
    key: str = ""

    @property
    def label(self) -> dict[str, Any]:
        """Its row of ``labels.jsonl``; of a log in a folder of its category, what such a row would hold."""
        return {**self.labelled.row, "log": self.labelled.log, "category": self.labelled.category}

    @property
    def is_cause(self) -> list[bool]:
        """For each failure, whether one of its lines is a labelled evidence line."""
        wanted = set(self.labelled.evidence_lines)
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


def corpus_name(path: Path) -> str:
    """Return what a corpus is called: the name of its folder or archive.

    >>> corpus_name(Path("data/executed.tar.xz"))
    'executed'
    """
    return path.resolve().name.partition(".tar")[0].removesuffix(".tgz")


def load_samples(
    corpora: Sequence[Path], jobs: int = -1, cache: Path | None = None, progress: Progress | None = None
) -> list[Sample]:
    """Read and describe all logs of the corpora, using `jobs` processes.

    Parameters
    ----------
    cache : folder that keeps described logs; None for none

    Raises
    ------
    InputError : a corpus that is none, or a log that can't be read
    """
    labelled = [(corpus_name(corpus), each) for corpus in corpora for each in load_corpus(corpus)]
    for _, each in labelled:
        if each.category == "unknown":
            raise InputError(f"{each.path}: 'unknown' is an answer, not a category to learn")
    described = describe_logs([each.path for _, each in labelled], jobs, cache, progress)
    return [
        Sample(found, each, _group(corpus, each), corpus, key)
        for (key, found), (corpus, each) in zip(described, labelled, strict=True)
    ]


def _group(corpus: str, each: Labelled) -> str:
    """The row's ``template`` or ``group``; a log without is its own group."""
    return str(each.row.get("template") or each.row.get("group") or f"{corpus}/{each.log}")
