"""One pass over blocks: find the lines that may matter, keep them with a few neighbours, count all lines.

Most bytes are only seen by the scanner and the newline counter. A line with a literal is folded by its *shape* (what is
left of it without digits and small hex digits): the first lines of a shape are kept, the very first with their
neighbours, and some from the end of the log. Bounded by construction: at most `EARLY` + `LATE` lines, none longer
than `PIECE` bytes, whatever the log holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ddpclassify.read.blocks import BLOCK, Blocks, Fill
from ddpclassify.read.decode import decode
from ddpclassify.read.literals import FRAME, LITERALS, MANY, SHAPES
from ddpclassify.types import RawLine

PIECE = 8192
HEAD, TAIL = 400, 400  # lines kept whatever they say, as far as they fit a block
BEFORE, AFTER = 3, 8  # neighbours of a hit …
NEAR = 16  # … of the first hits of a shape
NEAR_SHAPES = 500  # … and of so many shapes
EARLY, LATE = 64_000, 16_000  # lines kept in all: as they come, and of those that come after
MANY_BYTES = 128 << 20  # from here on numpy's faster counting pays for its import

_VARYING = b"0123456789abcdef"
_FRAME = next(i for i, (word, _) in enumerate(LITERALS) if word == FRAME)
_AFTER_FRAME = 1024  # bytes after a frame in which an exception may follow

Hit = tuple[int, int, int]  # literal's index, its start and end in the block
Hits = Callable[["bytes | memoryview"], Iterable[Hit]]
Piece = tuple[int, bytes]  # line number, (part of) the line


def scanner() -> Hits:
    """Return the fastest multi-literal scanner that is installed; all give the same hits, ascending and disjoint."""
    try:
        from ahocorasick_rs import BytesAhoCorasick, MatchKind
    except ImportError:
        return regex_scanner()
    automaton = BytesAhoCorasick([row[0] for row in LITERALS], matchkind=MatchKind.LeftmostFirst)
    find: Hits = automaton.find_matches_as_indexes
    return find


def regex_scanner() -> Hits:
    """Return the scanner for platforms without a wheel of `ahocorasick_rs`: same hits, some 50 times slower."""
    words = [row[0] for row in LITERALS]
    pattern = re.compile(b"|".join(map(re.escape, words)))
    index = {word: i for i, word in enumerate(words)}
    return lambda block: ((index[m.group()], *m.span()) for m in pattern.finditer(block))


Span = tuple[int, int]  # start and end in the block


class Shape:
    """The lines of one shape: how many came, where the late ones of this block stand, and the last ones kept."""

    __slots__ = ("count", "full", "here", "keep", "last", "late", "near")

    def __init__(self, keep: int, near: int) -> None:
        self.keep, self.late, self.near, self.count = keep, keep // 8, near, 0
        self.full = False  # the first lines are kept: those that still come are late
        self.here: list[Span] = []
        self.last: list[Piece] = []


class Picker:
    """Collects the lines to keep of one file while its blocks go by."""

    def __init__(self, hits: Hits) -> None:
        self.hits = hits
        self.shapes: dict[bytes, Shape] = {}
        self.room = dict(SHAPES)  # shapes that a class of literals may still bring
        self.kept: list[Piece] = []
        self.late: dict[Shape, None] = {}  # shapes with late lines
        self.waiting: tuple[bytearray, int, dict[Shape, list[Span]]] | None = None  # the last block's late lines
        self.number = 1  # of the line that the next block begins with
        self.lead = HEAD  # lines still wanted at the start of the next block
        self.open = False  # the last block did not end with a line feed
        self.recent: list[tuple[bytearray, int]] = []  # the last two blocks
        self.n_bytes = 0

    def feed(self, block: bytearray, n: int) -> None:
        """Take the next block: the first `n` bytes of a buffer that stays as it is during the next call."""
        self.n_bytes += n
        spans = self._lead(block, n)
        with memoryview(block) as view:
            self._hits(block, view[:n], spans)
        late: dict[Shape, list[Span]] = {}
        for shape in self.late:
            if shape.here:
                late[shape], shape.here = shape.here, []
                shape.count += len(late[shape])
        self._settle(late)
        self.waiting = block, self.number, late
        at, number = 0, self.number
        for start, end in sorted(spans):  # a hit's neighbours begin before hits that came earlier
            if start < at:
                start = at  # the neighbours of an earlier hit reached this far
            if start < end:
                number = self._keep(block, start, end, number + self._count(block, at, start))
                at = end
        self.number = number + self._count(block, at, n)
        self.open = block[n - 1] != 10
        self.recent = [*self.recent[-1:], (block, n)]

    def _settle(self, newer: dict[Shape, list[Span]]) -> None:
        """Keep the late lines of the block before, but those that a newer block has enough of."""
        if self.waiting is None:
            return
        (block, number, late), self.waiting, at = self.waiting, None, 0
        wanted = ((shape, here, shape.late - len(newer.get(shape, ()))) for shape, here in late.items())
        spans = [(start, end, shape) for shape, here, n in wanted if n > 0 for start, end in here[-n:]]
        for start, end, shape in sorted(spans, key=lambda span: span[0]):
            number += self._count(block, at, start)
            shape.last.append((number, bytes(block[start:end])))
            at = start
        if spans:
            self._trim(late)

    def _keep(self, block: bytearray, start: int, end: int, number: int) -> int:
        """Keep the lines of a span for good; return the number of the line after it."""
        while start < end:
            past = block.find(b"\n", start, end) + 1 or end
            self.kept.append((number, bytes(block[start : min(past, start + PIECE)])))
            number += block[past - 1] == 10
            start = past
        return number

    def _lead(self, block: bytearray, n: int) -> list[Span]:
        """The span at the start of the block that is kept whatever it says."""
        start = block.find(b"\n", 0, n) + 1 or n if self.open else 0  # a line that began before was kept before
        end = start
        while self.lead and end < n:
            end = block.find(b"\n", end, n) + 1 or n
            self.lead -= 1
        return [(start, end)] if end > start else []

    def _hits(self, block: bytearray, view: memoryview, spans: list[Span]) -> None:
        """Append the spans to keep around the block's hits, and those beyond the first of a shape to the shape."""
        n, done, frame, shapes = len(view), 0, -_AFTER_FRAME, self.shapes
        start = past = 0  # the line of the last hit
        room = EARLY - len(self.kept)
        find, rfind = block.find, block.rfind  # this loop is the time that a noisy log takes
        for index, at, _ in self.hits(view):
            if at < done:  # the same line again
                continue
            if at >= past:
                start = rfind(b"\n", past, at) + 1 or past
                past = find(b"\n", at, n) + 1 or n
            if past - start <= 512:
                whole, low, done = True, start, past
                line = bytes(view[start:past])
            else:
                whole = past - start <= PIECE
                low = start if whole else max(start, done, at - PIECE // 2)
                done = past if whole else min(past, at + PIECE // 2)
                line = bytes(view[max(low, at - 256) : min(done, at + 256)])
            key = line.translate(None, _VARYING)
            if index == _FRAME:
                frame = done
            elif at - frame < _AFTER_FRAME:
                key += FRAME
            shape = shapes.get(key) or self._new(key, line, index)
            if shape.full:
                shape.here.append((low, done))
                continue
            if shape.count >= shape.keep or room <= 0:
                shape.full, self.late[shape] = True, None
                shape.here.append((low, done))
                continue
            shape.count += 1
            if shape.count > shape.near or not whole:
                spans.append((low, done))
                room -= 1
                continue
            end = done
            for _ in range(AFTER):
                end = find(b"\n", end, n) + 1 or n
            self.lead = max(self.lead, AFTER if end == n else 0)
            for _ in range(BEFORE):
                low = rfind(b"\n", 0, low - 1) + 1 if low > 1 else 0
            spans.append((low, end))
            room -= 4

    def _new(self, key: bytes, line: bytes, index: int) -> Shape:
        """The entry of a shape that is new; when there is no room for more, that of all such lines of a literal."""
        keep = LITERALS[index][1]
        if any(self.room.values()):  # the rarest literal of the line says how much it matters
            keep = MANY if key.endswith(FRAME) else max((LITERALS[i][1] for i, _, _ in self.hits(line)), default=keep)
        if not self.room[keep]:
            key = LITERALS[index][0]
            if key in self.shapes:
                return self.shapes[key]
        else:
            self.room[keep] -= 1
        shape = self.shapes[key] = Shape(keep, NEAR if len(self.shapes) < NEAR_SHAPES else 0)
        return shape

    def _trim(self, late: Iterable[Shape]) -> None:
        """Forget late lines: of each shape all but the last; when there are too many, of the most frequent shapes."""
        for shape in late:
            if len(shape.last) > 2 * shape.late:
                del shape.last[: -shape.late]
        if sum(len(shape.last) for shape in self.late) > LATE:
            limit = max(len(shape.last) for shape in self.late)
            while limit > 1 and sum(min(len(shape.last), limit) for shape in self.late) > LATE // 2:
                limit //= 2
            for shape in self.late:
                del shape.last[:-limit]

    def _count(self, block: bytearray, start: int, end: int) -> int:
        if end - start < 4096 or self.n_bytes < MANY_BYTES:
            return block.count(b"\n", start, end)
        import numpy as np

        return int(np.count_nonzero(np.frombuffer(block, np.uint8, end - start, start) == 10))

    def rejoin(self, limit: int) -> None:
        """Join the last two blocks when they are small, for the end of a file that comes in small pieces."""
        if len(self.recent) == 2 and (size := self.recent[0][1] + self.recent[1][1]) <= limit:
            self.recent = [(self.recent[0][0][: self.recent[0][1]] + self.recent[1][0][: self.recent[1][1]], size)]

    def _tail(self) -> Iterator[Piece]:
        """The last lines of the last two blocks, backwards."""
        number, left = self.number - (not self.open), TAIL
        later = False
        for block, n in reversed(self.recent):
            number += later and block[n - 1] != 10  # a line longer than a block goes on in the later one
            end, later = n, True
            while end > 0 and left:
                start = block.rfind(b"\n", 0, end - 1) + 1
                yield number, bytes(block[start : min(end, start + PIECE)])
                number, end, left = number - 1, start, left - 1

    def result(self) -> tuple[list[Piece], int]:
        """Return the kept pieces in order and the number of lines (a last one without line feed counts)."""
        self._settle({})
        pieces = dict.fromkeys(self.kept)
        for shape in self.late:
            pieces.update(dict.fromkeys(shape.last[-shape.late :]))
        pieces.update(dict.fromkeys(self._tail()))
        return sorted(pieces, key=lambda p: p[0]), self.number - 1 + self.open


def visible(piece: bytes, hits: Hits) -> Iterator[str]:
    """Yield a line's states: a progress bar overwrites itself (carriage return), and an error may stand between."""
    text = piece.rstrip(b"\r\n")
    if b"\r" not in text:
        yield decode(text)
        return
    states = [state for state in text.split(b"\r") if state.strip()]
    said = [i for i, state in enumerate(states) if next(iter(hits(state)), None) is not None]
    # Of a long bar only the last states tell anything, and the first ones that hold a literal.
    wanted = {*said[:3], *said[-3:], *range(max(0, len(states) - 3), len(states))}
    yield from (decode(states[i]) for i in sorted(wanted))
    if not states:
        yield ""


def scan(file: int, fill: Fill, hits: Hits, size: int = BLOCK) -> tuple[list[RawLine], int, int]:
    """Scan one file.

    Parameters
    ----------
    file : index put into the lines
    fill : gives the file's bytes
    hits : from `scanner`
    size : bytes of a block

    Returns
    -------
    lines, number of lines, number of bytes
    """
    picker, blocks = Picker(hits), Blocks(fill, size)
    for block, n in blocks:
        picker.feed(block, n)
    pieces, n_lines = picker.result()
    lines = [RawLine(file, number, text) for number, piece in pieces for text in visible(piece, hits)]
    return lines, n_lines, blocks.n_bytes
