"""A stream of bytes → blocks of whole lines, without copying them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

BLOCK = 1 << 19
"""Bytes of a block. Two of them fit the second-level cache of most processors, which larger ones do not."""

OVERLAP = 32
"""Enough to repeat for no literal to be lost at a cut."""

Fill = Callable[[memoryview], int]
"""Writes the next bytes of a stream into the view and returns their number; 0 at the end."""


class Blocks:
    """The blocks of a stream; each ends with a line feed, at the end of the stream, or inside a line longer than it.

    The bytes lie in two buffers that take turns: a block is valid until the next but one is asked for.

    Parameters
    ----------
    overlap : bytes repeated where a line is longer than a block

    Attributes
    ----------
    n_bytes : bytes of the stream so far
    """

    def __init__(self, fill: Fill, size: int = BLOCK, overlap: int = OVERLAP) -> None:
        self.fill, self.size, self.overlap, self.n_bytes = fill, size, overlap, 0

    def __iter__(self) -> Iterator[tuple[bytearray, int]]:
        """Yield buffers, and how many of their bytes are the block."""
        this, other = bytearray(self.size), bytearray(self.size)
        rest = 0  # bytes that the last block left for this one
        while True:
            n = start = rest
            with memoryview(this) as view:
                while n < self.size and (got := self.fill(view[n:])):
                    n += got
            self.n_bytes += n - start
            if n < self.size:
                if n:
                    yield this, n
                return
            cut = this.rfind(b"\n") + 1
            yield this, cut or n
            again = cut or n - self.overlap
            rest = n - again
            other[:rest] = this[again:]
            this, other = other, this


def from_pieces(pieces: Iterable[bytes]) -> Fill:
    """Return a `Fill` that takes its bytes from pieces of any size."""
    left = iter(pieces)
    piece = memoryview(b"")

    def fill(view: memoryview) -> int:
        nonlocal piece
        while not piece:
            try:
                piece = memoryview(next(left))
            except StopIteration:
                return 0
        n = min(len(piece), len(view))
        view[:n], piece = piece[:n], piece[n:]
        return n

    return fill
