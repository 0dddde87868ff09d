"""The ways a job's output takes through us: one channel for each place that our own output goes to."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import termios
from collections.abc import Callable, Iterator

_PIECE = 1 << 16

Sink = Callable[[int, bytes], None]  # (channel's number, bytes)


class Channel:
    """Carries what the job writes to `targets` (our own descriptors, equal places) through to the first of them.

    A pseudo-terminal when the target is a terminal, so that the job goes on using colours; else a pipe. Where standard
    output and error go to the same place they share a channel, which keeps their order.
    """

    def __init__(self, number: int, targets: list[int]) -> None:
        self.number, self.targets = number, targets
        self.terminal = os.isatty(targets[0])
        self.source, self.child_end = os.openpty() if self.terminal else os.pipe()
        self.size = b""
        if self.terminal:
            attributes = termios.tcgetattr(self.child_end)
            attributes[1] &= ~termios.OPOST  # bytes pass unchanged; the real terminal turns \n into \r\n
            termios.tcsetattr(self.child_end, termios.TCSANOW, attributes)
            self.resize()

    def resize(self) -> bool:
        """Give the pseudo-terminal the size of the real one; returns whether it changed."""
        if not self.terminal:
            return False
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self.targets[0], termios.TIOCGWINSZ, bytes(8))
            if size != self.size and any(struct.unpack("HHHH", size)):
                self.size = size
                fcntl.ioctl(self.source, termios.TIOCSWINSZ, size)
                return True
        return False

    def pump(self, sink: Sink) -> bool:
        """Pass one piece on; returns whether more may come. The job sees a closed target as it would without us."""
        try:
            piece = os.read(self.source, _PIECE)
        except OSError:  # Linux says so when the last writer of a pseudo-terminal is gone
            return False
        if not piece:
            return False
        sink(self.number, piece)
        return _write(self.targets[0], piece)

    def close(self) -> None:
        """Close our end, which ends a job that goes on writing, as a closed pipe does."""
        if self.source >= 0:
            os.close(self.source)
            self.source = -1


def channels() -> list[Channel]:
    """Return the channels for our standard output and error."""
    places: dict[tuple[int, ...], list[int]] = {}
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # closed from the start
            stat = os.fstat(descriptor)
            places.setdefault((stat.st_dev, stat.st_ino, stat.st_rdev), []).append(descriptor)
    return [Channel(number, targets) for number, targets in enumerate(places.values())]


def _write(target: int, piece: bytes) -> bool:
    """Write all of a piece; returns whether the target can take more. A full disk loses the piece, not the job."""
    for rest in _rests(piece):
        try:
            rest(target)
        except BlockingIOError:  # somebody made our output non-blocking
            select.select([], [target], [])
        except BrokenPipeError:
            return False
        except OSError:
            return True
    return True


def _rests(piece: bytes) -> Iterator[Callable[[int], None]]:
    view, done = memoryview(piece), 0

    def write(target: int) -> None:
        nonlocal done
        done += os.write(target, view[done:])

    while done < len(view):
        yield write
