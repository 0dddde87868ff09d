"""Labelled corpora: a folder with ``labels.jsonl`` or with one subfolder a category, or such a folder as a tar file."""

from __future__ import annotations

import atexit
import json
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddpclassify.foreign import from_json
from ddpclassify.types import InputError

__all__ = ["CATEGORIES", "LABELS", "SCOPES", "Labelled", "load_corpus"]

LABELS = "labels.jsonl"
CATEGORIES = "categories.toml"  # advice on categories of one's own, beside the labels
SCOPES = ("ranks", "all", "launcher", "unknown", "none")


@dataclass(frozen=True)
class Labelled:
    """One log with its label.

    Attributes
    ----------
    path : the log: a file, perhaps compressed, or a folder of per-rank files
    log : its name inside the corpus
    scope, culprit_ranks : None where the label leaves them out
    evidence_lines : ``"17"``, or ``"stderr.log:17"`` in a folder
    row : all fields of the label
    """

    path: Path
    log: str
    category: str
    scope: str | None = None
    culprit_ranks: tuple[int, ...] | None = None
    evidence_lines: tuple[str, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict, compare=False)


def load_corpus(path: str | Path) -> list[Labelled]:
    """Return the labelled logs of a corpus, in the order of its label file or of the names of its folders.

    Raises
    ------
    InputError : in one line, with file and line number, what is wrong
    """
    folder = Path(path)
    if folder.is_file():
        folder = _unpacked(folder)
    labels = folder / LABELS
    if labels.is_file():
        out = _from_labels(labels)
    elif folder.is_dir():
        out = _from_folders(folder)
    else:
        raise InputError(
            f"{folder}: no such corpus: a corpus is a folder with {LABELS}, or with one subfolder a category"
        )
    if not out:
        raise InputError(f"{folder}: no labelled logs: a corpus has {LABELS}, or one subfolder a category")
    return out


def _unpacked(archive: Path) -> Path:
    """Unpack an archive for the rest of this process; returns the folder."""
    temporary = tempfile.TemporaryDirectory(prefix="ddpclassify-corpus-")
    atexit.register(temporary.cleanup)
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(temporary.name, filter="data")
    except (OSError, tarfile.TarError, EOFError) as error:
        raise InputError(f"{archive}: not a readable tar archive: {error}") from error
    folder = Path(temporary.name)
    inner = list(folder.iterdir())
    return inner[0] if len(inner) == 1 and inner[0].is_dir() and not (folder / LABELS).exists() else folder


def _from_labels(labels: Path) -> list[Labelled]:
    try:
        text = labels.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{labels}: {getattr(error, 'strerror', None) or error}") from error
    out = []
    # Only line feeds end a row: JSON texts may hold the other characters that `splitlines` cuts at.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                out.append(_labelled(labels.parent, from_json(line)))
            except json.JSONDecodeError as error:
                raise InputError(f"{labels}:{number}: not JSON: {error.msg}, column {error.colno}") from error
            except ValueError as error:
                raise InputError(f"{labels}:{number}: {error}") from error
    return out


def _labelled(folder: Path, row: object) -> Labelled:
    if not isinstance(row, dict):
        raise ValueError("a row must be a JSON object")
    for key in ("log", "category"):
        if not isinstance(row.get(key), str) or not row[key]:
            raise ValueError(f"{key!r} must be a text" if key in row else f"{key!r} is missing")
    scope = row.get("scope")
    if scope is not None and scope not in SCOPES:
        raise ValueError(f"'scope' must be one of {', '.join(SCOPES)}; not {scope!r}")
    ranks, evidence = row.get("culprit_ranks"), row.get("evidence_lines")
    if ranks is not None and not (isinstance(ranks, list) and all(_is_number(rank) and rank >= 0 for rank in ranks)):
        raise ValueError("'culprit_ranks' must be a list of rank numbers")
    if ranks and scope not in (None, "ranks"):
        raise ValueError(f"'culprit_ranks' must be empty where 'scope' is {scope!r}")
    if evidence is not None and not (
        isinstance(evidence, list) and all(_is_number(each) or isinstance(each, str) for each in evidence)
    ):
        raise ValueError("'evidence_lines' must be a list of line numbers, or of texts file:line")
    path = folder / row["log"]
    if not path.exists():
        raise ValueError(f"no such log: {row['log']}")
    return Labelled(
        path=path,
        log=row["log"],
        category=row["category"],
        scope=scope,
        culprit_ranks=None if ranks is None else tuple(sorted(ranks)),
        evidence_lines=tuple(str(each) for each in evidence or ()),
        row=row,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _from_folders(folder: Path) -> list[Labelled]:
    return [
        Labelled(path=log, log=log.relative_to(folder).as_posix(), category=category.name, row={"log": log.name})
        for category in sorted(folder.iterdir())
        if category.is_dir() and not category.name.startswith(".")
        for log in sorted(category.iterdir())
        if not log.name.startswith(".")
    ]
