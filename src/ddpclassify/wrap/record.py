"""Keeps the job's whole output in a file; whatever goes wrong with the file, the job does not notice."""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from ddpclassify.language import say

_TAIL = 4 << 20  # bytes kept in memory once the file can't grow
_LINE = 1 << 16  # an unfinished line longer than this is written as it is


class Record:
    """The kept log.

    Several channels are written a whole line at a time, so that standard output and error don't cut each other.
    """

    def __init__(self, parent: Path, say: Callable[[str], None]) -> None:
        self.say = say
        self.folder = _make(parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.file: int | None = os.open(self.path, flags, 0o644)
        self.tail: deque[bytes] = deque()
        self.size = 0
        self.waiting: dict[int, bytes] = {}
        self.whole_lines = False

    @property
    def path(self) -> Path:
        return self.folder / "output.log"

    def take(self, channel: int, piece: bytes) -> None:
        """Keep a piece of a channel's output."""
        if self.whole_lines:
            piece = self.waiting.pop(channel, b"") + piece
            cut = len(piece) if len(piece) > _LINE else piece.rfind(b"\n") + 1
            if cut < len(piece):
                self.waiting[channel] = piece[cut:]
            piece = piece[:cut]
        self._keep(piece)

    def close(self) -> None:
        """Write unfinished lines, and close the file."""
        for rest in self.waiting.values():
            self._keep(rest)
        self.waiting.clear()
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def lines(self) -> Path | Iterator[bytes]:
        """Return what to diagnose: the file, or, when it is not whole, its lines and those kept in memory."""
        return self._parts() if self.tail else self.path

    def _parts(self) -> Iterator[bytes]:
        if self.path.is_file():
            with self.path.open("rb") as file:
                yield from file
        yield from b"".join(self.tail).splitlines(keepends=True)

    def _keep(self, piece: bytes) -> None:
        view = memoryview(piece)
        while self.file is not None and view:
            try:
                view = view[os.write(self.file, view) :]
            except OSError as error:
                self.say(f"{self.path}: " + say("{error}; the log ends here, the job goes on", error=error.strerror))
                os.close(self.file)
                self.file = None
        if view:
            self.tail.append(bytes(view))
            self.size += len(view)
            while self.size > _TAIL:
                self.size -= len(self.tail.popleft())


def _make(parent: Path) -> Path:
    """Make a new folder for this run, in the temporary folder when `parent` can't be written."""
    stamp = time.strftime("%Y%m%d-%H%M%S") + f"-{os.getpid()}"
    try:
        folder = parent / stamp
        folder.mkdir(parents=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix=f"ddpclassify-{stamp}-"))
    return folder
