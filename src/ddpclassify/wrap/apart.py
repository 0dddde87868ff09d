"""Processes beside ours, so that whatever kills one of them, the job and its exit status do not notice."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Callable, Sequence

from ddpclassify.wrap.channels import Channel, Sink

__all__ = ["FORWARDED", "Standby", "apart"]

FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_DONE = b"\xff"


class Standby:
    """Waits while we work; when we are killed it passes the job's output on, to our targets and to the kept log.

    Parameters
    ----------
    channels : the job's
    sink, close : where the output goes besides, and what is done at its end
    """

    def __init__(self, channels: Sequence[Channel], sink: Sink, close: Callable[[], None]) -> None:
        heard, self._told = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                os.close(self._told)
                _stand_by(heard, channels, sink, close)
            finally:
                os._exit(0)
        os.close(heard)

    def closed(self, channel: Channel) -> None:
        """Tell that a channel is closed: while any process can read of it, the job does not see that."""
        self._tell(bytes([channel.number]))

    def dismiss(self) -> None:
        """Tell that the job has ended."""
        self._tell(_DONE)
        os.close(self._told)
        os.waitpid(self._pid, 0)

    def _tell(self, word: bytes) -> None:
        with contextlib.suppress(OSError):  # it was killed
            os.write(self._told, word)


def _stand_by(heard: int, channels: Sequence[Channel], sink: Sink, close: Callable[[], None]) -> None:
    for name in FORWARDED:
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    while word := os.read(heard, 1):
        if word == _DONE:
            return
        channels[word[0]].close()
    with selectors.DefaultSelector() as selector:
        for channel in channels:
            if channel.source >= 0:
                selector.register(channel.source, selectors.EVENT_READ, channel)
        while selector.get_map():
            for key, _ in selector.select():
                if not key.data.pump(sink):
                    selector.unregister(key.fileobj)
                    key.data.close()
    close()


def apart(work: Callable[[], None]) -> str | None:
    """Do something in a process of its own; returns what ended it or us before it was done."""
    pid = os.fork()
    if not pid:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # who waits for this tells of it
            work()
        finally:
            os._exit(0)
    try:
        _, status = os.waitpid(pid, 0)
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "KeyboardInterrupt"
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None
