"""One pass over byte blocks: find the lines that may matter, keep them with a few neighbours, count all lines.

Bounded by construction: a block is at most `BLOCK` bytes, a kept piece at most `PIECE` bytes, at most `keep` (see
`literals`) lines of one shape from the start of the log and as many from its end, `SHAPES` shapes. Most bytes are only
seen by the scanner and the newline counter.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from ddpclassify.read.decode import decode
from ddpclassify.read.literals import LITERALS, SOME
from ddpclassify.types import RawLine

BLOCK = 1 << 20
PIECE = 8192
HEAD, TAIL = 400, 400  # lines kept whatever they say
BEFORE, AFTER = 3, 8  # neighbours of a hit
SHAPES = 20_000
_DIGITS = b"0123456789"

Hits = Callable[[bytes], Iterable[tuple[int, int]]]  # block → (literal's index, position), ascending


def scanner() -> Hits:
    """Return the fastest multi-literal scanner that is installed; all give the same hits."""
    words = [word for word, _ in LITERALS]
    try:
        from ahocorasick_rs import BytesAhoCorasick, MatchKind
    except ImportError:
        return regex_scanner()
    automaton = BytesAhoCorasick(words, matchkind=MatchKind.LeftmostFirst)
    return lambda block: ((i, s) for i, s, _ in automaton.find_matches_as_indexes(block))


def regex_scanner() -> Hits:
    """Return the scanner for platforms without a wheel of `ahocorasick_rs`: same hits, some 50 times slower."""
    words = [word for word, _ in LITERALS]
    pattern = re.compile(b"|".join(map(re.escape, words)))
    index = {word: i for i, word in enumerate(words)}
    return lambda block: ((index[m.group()], m.start()) for m in pattern.finditer(block))


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks that end with a line feed, or, in a line longer than `BLOCK`, anywhere."""
    tail = b""
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield tail + chunk[:cut] if tail else chunk[:cut]
            tail = chunk[cut:]
        elif len(tail) + len(chunk) > BLOCK:
            yield tail + chunk
            tail = b""
        else:
            tail += chunk
    if tail:
        yield tail


class Picker:
    """Collects the lines to keep of one file while blocks go by."""

    def __init__(self, file: int, hits: Hits) -> None:
        self.file, self.hits = file, hits
        self.kept: list[tuple[int, bytes]] = []  # (line number, piece), ascending
        self.tail: deque[tuple[int, bytes]] = deque(maxlen=TAIL)
        self.seen: dict[bytes, int] = {}
        self.late: dict[bytes, deque[tuple[int, bytes]]] = {}
        self.number = 1  # of the line that the next block begins with
        self.after = 0  # neighbours still wanted
        self.n_bytes = 0
        self.open = False  # the last block did not end with a line feed

    def feed(self, block: bytes) -> None:
        self.n_bytes += len(block)
        first = self.number
        spans = self._spans(block)
        wanted = max(_skip_lines(block, 0, HEAD + 1 - first), _skip_lines(block, 0, self.after))
        if wanted:
            spans = _join(0, wanted, spans)
        self.after = AFTER if spans and spans[-1][1] == len(block) else 0
        at, number = 0, first
        for start, end, keep in spans:
            number += _count_lines(block, at, start)
            for line in _lines(block[start:end]):
                self._keep(number, line, keep)
                number += line.endswith(b"\n")
            at = end
        self.number = number + _count_lines(block, at, len(block))
        self.open = not block.endswith(b"\n")
        self._remember_tail(block)

    def _spans(self, block: bytes) -> list[tuple[int, int, int]]:
        """Spans (start, end, keep) of whole lines around the hits, ascending and disjoint."""
        spans: list[tuple[int, int, int]] = []
        floor = start = hit_end = keep = 0
        for index, at in self.hits(block):
            more = LITERALS[index][1]
            if at < hit_end:
                keep = max(keep, more)
                continue
            near = hit_end and at - hit_end < PIECE and block.count(b"\n", hit_end, at) <= BEFORE + AFTER
            if hit_end and not near:
                floor = _skip_lines(block, hit_end, AFTER)
                spans.append((start, floor, keep))
            if not near:
                keep, start = 0, max(floor, block.rfind(b"\n", floor, at) + 1)
                for _ in range(BEFORE):
                    if start > floor:
                        start = max(floor, block.rfind(b"\n", floor, start - 1) + 1)
            keep = max(keep, more)
            hit_end = block.find(b"\n", at) + 1 or len(block)
        if hit_end:
            spans.append((start, _skip_lines(block, hit_end, AFTER), keep))
        return spans

    def _keep(self, number: int, line: bytes, keep: int) -> None:
        piece = line if len(line) <= PIECE else line[:PIECE]
        shape = piece[:512].translate(None, _DIGITS)
        count = self.seen.get(shape, 0)
        if count < keep:
            if count or len(self.seen) < SHAPES:
                self.seen[shape] = count + 1
            self.kept.append((number, piece))
            if len(line) > PIECE:
                self._keep_long(number, line)
        else:
            self.late.setdefault(shape, deque(maxlen=keep)).append((number, piece))

    def _keep_long(self, number: int, line: bytes) -> None:
        """Of a line longer than a piece keep what follows the last carriage return, and where literals stand."""
        wanted = {len(line) - PIECE // 2}
        for _, at in self.hits(line[PIECE:]):
            wanted.add((PIECE + at) // (PIECE // 2) * (PIECE // 2))
            if len(wanted) > 16:
                break
        for start in sorted(wanted):
            self.kept.append((number, line[max(start, PIECE) : start + PIECE // 2]))

    def _remember_tail(self, block: bytes) -> None:
        number, end = self.number - (not self.open), len(block)
        lines: list[tuple[int, bytes]] = []
        while end > 0 and len(lines) < TAIL:
            start = block.rfind(b"\n", 0, end - 1) + 1
            lines.append((number, block[start : min(end, start + PIECE)]))
            number, end = number - 1, start
        self.tail.extend(reversed(lines))

    def result(self) -> tuple[list[RawLine], int]:
        """Return the kept lines in order and the number of lines (a last one without line feed counts)."""
        pieces = dict.fromkeys(self.kept)
        for late in self.late.values():
            pieces.update(dict.fromkeys(late))
        pieces.update(dict.fromkeys(self.tail))
        out = []
        for number, piece in sorted(pieces, key=lambda p: p[0]):
            for part in _visible(piece):
                out.append(RawLine(self.file, number, part))
        return out, self.number - 1 + self.open


def _visible(piece: bytes) -> Iterator[str]:
    """Split at carriage returns: a progress bar overwrites itself, and an error may begin after it."""
    text = decode(piece.rstrip(b"\r\n"))
    if "\r" not in text:
        yield text
        return
    parts = [p for p in text.split("\r") if p.strip()]
    # Of a long bar only its last states tell anything.
    yield from parts[-3:] or [""]


def _lines(span: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(span):
        end = span.find(b"\n", at) + 1 or len(span)
        yield span[at:end]
        at = end


def _skip_lines(block: bytes, at: int, n: int) -> int:
    for _ in range(n):
        if at >= len(block):
            return len(block)
        at = block.find(b"\n", at) + 1 or len(block)
    return at


def _count_lines(block: bytes, start: int, end: int) -> int:
    if end - start < 4096:
        return block.count(b"\n", start, end)
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(block, np.uint8, end - start, start) == 10))


def _join(start: int, end: int, spans: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Add the span of lines kept whatever they say, at the start of a block."""
    keep, rest = SOME, []
    for span in spans:
        if span[0] <= end:
            end, keep = max(end, span[1]), max(keep, span[2])
        else:
            rest.append(span)
    return [(start, end, keep), *rest]


def scan(file: int, chunks: Iterable[bytes], hits: Hits) -> tuple[list[RawLine], int, int]:
    """Scan one file.

    Parameters
    ----------
    file : index put into the lines
    chunks : the file's bytes, in pieces of any size up to `BLOCK`
    hits : from `scanner`

    Returns
    -------
    lines, number of lines, number of bytes
    """
    picker = Picker(file, hits)
    for block in blocks(chunks):
        picker.feed(block)
    lines, n_lines = picker.result()
    return lines, n_lines, picker.n_bytes
