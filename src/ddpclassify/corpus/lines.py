"""All lines of a log, for what needs no excerpt: the baselines, and the checks of labels."""

from __future__ import annotations

from pathlib import Path

from ddpclassify.read.blocks import Blocks
from ddpclassify.read.sources import list_files, opened
from ddpclassify.types import SourceFile

__all__ = ["read_lines"]


def read_lines(path: Path) -> tuple[list[str], list[tuple[str | None, int]]]:
    """Return a log's lines and, for each, its file (None for a single file) and number.

    A folder's files follow each other, the last attempt's only. The rank that a file's name states is put in front of
    its lines as a launcher would: the baselines know no files.
    """
    found = list_files(path)
    last = max((source.attempt or 0 for source, _ in found), default=0)
    lines: list[str] = []
    places: list[tuple[str | None, int]] = []
    for source, file in found:
        if source.attempt is not None and source.attempt != last:
            continue
        with opened(file) as fill:
            text = b"".join(bytes(block[:n]) for block, n in Blocks(fill, overlap=0)).decode("utf-8", "replace")
        own = text.removesuffix("\n").split("\n") if text else []
        tag = _tag(source) if path.is_dir() else ""
        lines += [tag + line for line in own]
        places += [(source.name if path.is_dir() else None, number) for number in range(1, len(own) + 1)]
    return lines, places


def _tag(source: SourceFile) -> str:
    if source.rank is not None:
        return f"[rank{source.rank}]: "
    return f"[default{source.local_rank}]:" if source.local_rank is not None else ""
