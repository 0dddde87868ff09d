"""The error that torchrun, `@record` or `ddpclassify.instrument` left in a file, for logs that do not state it."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddpclassify.api import Model
from ddpclassify.redact import mask
from ddpclassify.types import Diagnosis, Folded

_LARGEST = 4 << 20  # bytes; more is no error file


def explain(
    model: Model, log: Path | Iterator[bytes], error_file: Path | None, redact: bool = False
) -> tuple[Folded, Diagnosis]:
    """Diagnose a log as `Model.explain` does; where it lacks what the error file states, both together.

    What is said of the error file then bears its name, and its lines count as they would stand in a log.
    """
    folded, alone = model.explain(log, redact=redact)
    lines = _error(error_file) if error_file is not None else []
    if not lines or not isinstance(log, Path) or _stated(lines[-1], log):
        return folded, alone
    name = mask(str(error_file)) if redact else str(error_file)
    folded, both = model.explain(_joined(log, lines), redact=redact)
    both.source, both.lines, both.bytes = alone.source, alone.lines, alone.bytes
    for item in both.evidence:
        if item["line"] > alone.lines:
            item["line"], item["file"] = item["line"] - alone.lines, name
    return folded, both


def _error(path: Path) -> list[str]:
    """The file's error as the lines of a log, the exception last; none where there is no such error."""
    try:
        if path.stat().st_size > _LARGEST:
            return []
        row: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    message = row.get("message") if isinstance(row, dict) else None
    extra = message.get("extraInfo") if isinstance(message, dict) else None
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    text = stack or (message.get("message") if isinstance(message, dict) else message)
    if not isinstance(text, str):
        return []
    rank = extra.get("rank") if isinstance(extra, dict) else None
    mark = f"[rank{rank}]: " if isinstance(rank, int) and not isinstance(rank, bool) else ""
    return [mark + line for line in text.splitlines() if line.strip()]


def _stated(line: str, log: Path) -> bool:
    """Whether a log holds the exception that a line of the error file tells of."""
    needle = line.partition("]: ")[2] if line.startswith("[rank") else line
    with log.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(needle.encode("utf-8", "replace")) >= 0
        except ValueError:  # empty
            return False


def _joined(log: Path, lines: list[str]) -> Iterator[str | bytes]:
    with log.open("rb") as file:
        yield from file
    yield from lines
