"""Follow a growing file or folder: late files, rotation by renaming, truncation, files written anew.

Bounded by construction: of each file only what the scan picks is kept, at most `_OLD` earlier contents of truncated or
vanished files, and `_BUDGET` bytes are read at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import escape
from pathlib import Path

from ddpclassify.read.blocks import BLOCK
from ddpclassify.read.scan import Picker, scanner, visible
from ddpclassify.read.sources import list_files
from ddpclassify.types import Excerpt, InputError, RawLine, SourceFile

_OLD = 64
_BUDGET = 64 << 20
_RECENT = 64 << 10  # bytes of a file's end
_HEAD = 64  # bytes by which a file is known again
_PACKED = (".gz", ".bz2", ".xz", ".zst")  # rotated away and read before


class Followed:
    """One content of one file: from its first byte to where it was renamed away, truncated, or ends for now."""

    def __init__(self, source: SourceFile, path: Path, key: tuple[int, int], picker: Picker) -> None:
        self.source, self.path, self.key, self.picker = source, path, key, picker
        self.at = 0
        self.head = b""
        self.pending = b""  # the begin of a line
        self.over = False

    def read(self, budget: int) -> Iterator[bytes]:
        """Yield what is new, as whole lines; a line without its end once nothing more of it came."""
        try:
            with self.path.open("rb") as file:
                stat = os.fstat(file.fileno())
                if (stat.st_dev, stat.st_ino) != self.key:  # renamed this moment; it will be found again
                    return
                if stat.st_size < self.at or file.read(len(self.head)) != self.head:
                    self.over = True
                    return
                file.seek(self.at)
                start = self.at
                while self.at - start < budget and (piece := file.read(BLOCK - len(self.pending))):
                    if len(self.head) < _HEAD:
                        self.head += piece[: _HEAD - len(self.head)]
                    self.at += len(piece)
                    piece = self.pending + piece
                    cut = piece.rfind(b"\n") + 1 or (len(piece) if len(piece) >= BLOCK else 0)
                    self.pending = piece[cut:]
                    if cut:
                        yield self._feed(piece[:cut])
        except OSError:  # gone between two looks; what was read stays
            return
        if self.at == start and self.pending:
            piece, self.pending = self.pending, b""
            yield self._feed(piece)

    def _feed(self, block: bytes) -> bytes:
        self.picker.feed(bytearray(block), len(block))
        self.picker.rejoin(_RECENT)  # the scan keeps the end of two blocks; ours are small
        return block


class Follower:
    """All files of a log, as they grow."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.hits = scanner()
        self.files: list[Followed] = []
        self.known: dict[tuple[int, int], Followed] = {}
        self.version = 0  # changes with the list of files

    def poll(self) -> list[tuple[int, bytes]]:
        """Read what is new; returns pieces of whole lines with the index of their file."""
        self._discover()
        news = []
        left = _BUDGET
        for index, file in enumerate(self.files):
            if left <= 0:  # the rest at the next look
                break
            if file.over:
                continue
            for piece in file.read(left):
                news.append((index, piece))
                left -= len(piece)
        return news

    @property
    def marks(self) -> int:
        """Lines so far that may matter; when it stays, so does the diagnosis."""
        return sum(shape.count for file in self.files for shape in file.picker.shapes.values())

    @property
    def n_lines(self) -> int:
        return sum(file.picker.number for file in self.files)

    def excerpt(self) -> Excerpt:
        """Return what was kept so far of all files."""
        lines: list[RawLine] = []
        n_lines = n_bytes = 0
        for index, file in enumerate(self.files):
            if not file.picker.n_bytes:
                continue
            pieces, count = file.picker.result()
            lines += (RawLine(index, n, text) for n, piece in pieces for text in visible(piece, self.hits))
            n_lines += count
            n_bytes += file.picker.n_bytes
        return Excerpt(str(self.log), tuple(file.source for file in self.files), tuple(lines), n_lines, n_bytes)

    def _discover(self) -> None:
        """Find late files, and know renamed ones again by their inode."""
        for source, path in self._candidates():
            try:
                stat = path.stat()
            except OSError:
                continue
            key = (stat.st_dev, stat.st_ino)
            file = self.known.get(key)
            if file is None or file.over:
                self.known[key] = file = Followed(source, path, key, Picker(self.hits))
                self.files.append(file)
                self.version += 1
            elif file.path != path and not _same(file.path, key):
                file.path = path
        while sum(file.over for file in self.files) > _OLD:
            self.files.remove(next(file for file in self.files if file.over))
            self.version += 1

    def _candidates(self) -> list[tuple[SourceFile, Path]]:
        if self.log.is_dir():
            try:
                return [(source, path) for source, path in list_files(self.log) if path.suffix not in _PACKED]
            except InputError:
                return []
        found = [(SourceFile(self.log.name), self.log)] if self.log.exists() else []
        if self.files and not any(_same(self.log, key) for key in self.known):
            # Renamed away: its end may not have been read yet.
            rotated = [path for path in self.log.parent.glob(f"{escape(self.log.name)}*") if path != self.log]
            found = [
                (SourceFile(path.name), path) for path in rotated if any(_same(path, k) for k in self.known)
            ] + found
        return found


def _same(path: Path, key: tuple[int, int]) -> bool:
    try:
        stat = path.stat()
    except OSError:
        return False
    return (stat.st_dev, stat.st_ino) == key
