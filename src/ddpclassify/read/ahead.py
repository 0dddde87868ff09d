"""Decompress in a thread, while the scan looks at what came before: both leave the interpreter's lock to the other."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Thread

from ddpclassify.read.blocks import Fill

_BUFFERS = 3
_BYTES = 1 << 18


def ahead(fill: Fill) -> Fill:
    """Return a `Fill` that gives the bytes of another one, which a thread asks before they are wanted.

    The thread ends with the stream, or when the process does: nobody waits for it. What `fill` raises is raised where
    its bytes were to come.
    """
    free: SimpleQueue[bytearray] = SimpleQueue()
    full: SimpleQueue[tuple[bytearray, int] | BaseException] = SimpleQueue()
    for _ in range(_BUFFERS):
        free.put(bytearray(_BYTES))

    def work() -> None:
        n = 1
        while n:
            buffer = free.get()
            try:
                n = fill(memoryview(buffer))
            except BaseException as error:  # passed on to who waits
                full.put(error)
                return
            full.put((buffer, n))

    Thread(target=work, daemon=True).start()
    piece, at, end = bytearray(), 0, 0

    def taken(view: memoryview) -> int:
        nonlocal piece, at, end
        if at == end:
            if piece:
                free.put(piece)
            got = full.get()
            if isinstance(got, BaseException):
                raise got
            (piece, end), at = got, 0
            if not end:
                full.put(got)  # still the end, however often it is asked for
                piece = bytearray()
                return 0
        n = min(end - at, len(view))
        view[:n] = memoryview(piece)[at : at + n]
        at += n
        return n

    return taken
