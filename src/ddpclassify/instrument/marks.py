"""Rank, local rank, time and host on every line that the process writes."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
from typing import Any, TextIO

from ddpclassify.instrument import crash
from ddpclassify.instrument.who import who

_LONG = 1 << 16  # characters of a line without its end that are kept back


def mark() -> str:
    """Return what a line begins with, like ``[rank3]:[local1]: 2026-12-01T12:00:00.123 node7 | ``.

    The rank comes first because readers of logs look for it there; the bar ends the host's name, whatever it is.
    """
    me = who()
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
    rank = f"[rank{me.rank}]:" if me.rank is not None else ""
    local = f"[local{me.local}]:" if me.local is not None else ""
    return f"{rank}{local}{' ' if rank or local else ''}{stamp} {me.host} | "


class Marked:
    """A text stream whose lines begin with the mark; a line is written as a whole, so that processes don't mix."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rest = ""
        self._inside = False  # the begin of the line is written already
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            if lines:
                head = mark()
                self._stream.write("".join(self._begun(line, head) + "\n" for line in lines))
                self._stream.flush()
            if len(self._rest) > _LONG:
                self.flush()
        return len(text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        """Write the begin of a line as well: a progress bar or a prompt waits for no line feed."""
        with self._lock:
            if self._rest:
                rest, self._rest = self._rest, ""
                self._stream.write(self._begun(rest, mark()))
                self._inside = True
            self._stream.flush()

    def _begun(self, line: str, head: str) -> str:
        if self._inside:
            self._inside = False
            return line
        back = "\r" if line.startswith("\r") else ""
        return back + head + line[len(back) :]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def setup(level: int = logging.INFO, marks: bool = True, hook: bool = True) -> None:
    """Mark every line of standard output and error, set logging up, and tell of exceptions that end the process.

    Parameters
    ----------
    level : of the root logger, when the script has not configured logging itself
    marks : put marks on lines; handlers of `logging` that write to the standard streams are led through them too
    hook : install the exception hook, see `crash`
    """
    if marks:
        for name in ("stdout", "stderr"):
            _mark_stream(name)
    if not logging.getLogger().handlers:
        logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    if hook:
        crash.install()
    me = who()
    if me.rank is not None:
        say(f"started: rank {me.rank}, pid {os.getpid()}, world size {me.world}")


def say(text: str) -> None:
    """Write one line to standard error."""
    with contextlib.suppress(OSError, ValueError):  # closed: the job matters more
        print(text, file=sys.stderr, flush=True)


def _mark_stream(name: str) -> None:
    stream = getattr(sys, name)
    if stream is None or isinstance(stream, Marked):
        return
    marked: Any = Marked(stream)
    setattr(sys, name, marked)
    atexit.register(_last_flush, marked)
    for logger in (logging.getLogger(), *map(logging.getLogger, list(logging.root.manager.loggerDict))):
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is stream:
                handler.setStream(marked)


def _last_flush(stream: Marked) -> None:
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
