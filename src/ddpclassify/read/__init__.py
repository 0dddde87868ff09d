"""Read a log of any size and form, and keep the lines that may matter."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ddpclassify.read.blocks import from_pieces
from ddpclassify.read.scan import scan, scanner
from ddpclassify.read.sources import list_files, opened
from ddpclassify.types import Excerpt, InputError, RawLine, SourceFile

__all__ = ["read"]


def read(log: str | Path | Iterable[str | bytes]) -> Excerpt:
    """Read one job's log.

    Parameters
    ----------
    log : a path (file, compressed file, folder of per-rank files), ``"-"`` for standard input, or lines

    Raises
    ------
    InputError : when nothing of it can be read; a folder's unreadable files are skipped as long as one is readable
    """
    hits = scanner()
    if not isinstance(log, (str, Path)):
        pieces = ((x.encode("utf-8", "replace") if isinstance(x, str) else x).rstrip(b"\r\n") + b"\n" for x in log)
        lines, n_lines, n_bytes = scan(0, from_pieces(pieces), hits)
        return Excerpt("<lines>", (SourceFile("<lines>"),), tuple(lines), n_lines, n_bytes)
    if log == "-":
        with opened(None) as fill:
            lines, n_lines, n_bytes = scan(0, fill, hits)
        return Excerpt("-", (SourceFile("-"),), tuple(lines), n_lines, n_bytes)
    found = list_files(Path(log))
    kept: list[RawLine] = []
    n_lines = n_bytes = 0
    failed: list[InputError] = []
    for index, (_, path) in enumerate(found):
        try:
            with opened(path) as fill:
                some, lines_in, bytes_in = scan(index, fill, hits)
        except InputError as error:
            failed.append(error)
            continue
        kept += some
        n_lines += lines_in
        n_bytes += bytes_in
    if len(failed) == len(found):
        raise failed[0]
    return Excerpt(str(log), tuple(file for file, _ in found), tuple(kept), n_lines, n_bytes)
