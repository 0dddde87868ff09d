"""A part as a Parquet file: the fields that one counts and filters by, a column each, and the whole answer as text."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from ddpclassify.types import InputError

__all__ = ["write"]

_TEXT, _NUMBER, _REAL = "string", "int64", "float64"
_COLUMNS = {
    "source": _TEXT, "error": _TEXT, "category": _TEXT, "reason": _TEXT, "confidence": _REAL, "origin": _TEXT,
    "retry": _TEXT, "scope": _TEXT, "culprit_confidence": _REAL, "culprit_host": _TEXT, "world_size": _NUMBER,
    "lines": _NUMBER, "bytes": _NUMBER,
}  # fmt: skip
_FLEET = ("seen", "issue", "title")


def write(part: Path) -> None:
    """Write a part of JSON Lines as Parquet beside it.

    Raises
    ------
    InputError : pyarrow is not installed
    """
    try:
        pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise InputError("--parquet needs pyarrow: pip install 'ddpclassify[fleet-parquet]'") from None
    lines = part.read_text("utf-8").splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in _COLUMNS.items()}
    columns["culprit_ranks"] = pa.array([row.get("culprit_ranks") for row in rows], pa.list_(pa.int64()))
    for name in _FLEET:
        columns[name] = pa.array([row["fleet"].get(name) for row in rows], _TEXT)
    columns["diagnosis"] = pa.array(lines, _TEXT)
    half = part.with_name(f".{part.stem}.half")
    parquet.write_table(pa.table(columns), half, compression="zstd")
    half.replace(part.with_suffix(".parquet"))
