"""Masks secrets: tokens, keys, passwords, e-mail addresses, as `secrets.toml` lists them.

Lines are masked right after they are read, so nothing that is made of them later can show a secret. The usual library,
detect-secrets, finds secrets in source files but does not mask them, and guesses by entropy: every checksum and address
of a log would be a find.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ddpclassify.patterns import lazy
from ddpclassify.tables import read_toml
from ddpclassify.types import Excerpt, RawLine

__all__ = ["MASK", "mask", "mask_pieces", "redact"]

MASK = "[redacted]"
_LONG = 1000  # a longer line may be a piece of one longer still, with half a secret at its ends
_END_WORDS = lazy(r"^[\w+/=.~-]{8,256}|(?<![\w+/=.~-])[\w+/=.~-]{8,256}$")
_HELD = 4096  # bytes of a piece's last word that wait for the next piece
_KEY = lazy(r"-----(?P<what>BEGIN|END) [A-Z ]{0,30}PRIVATE KEY-----")
_KEY_LINES = 200  # more than the longest key has
_KEY_TEXT = lazy(r"[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9+/]{1,16}={1,2}$")


@dataclass(frozen=True)
class Secret:
    """A row of the table."""

    name: str
    words: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    masks: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()


@cache
def table() -> tuple[Secret, ...]:
    """Return the rows of `secrets.toml`."""
    rows = read_toml(Path(__file__).with_name("secrets.toml"))["secret"]
    return tuple(
        Secret(
            row["name"],
            tuple(row["words"]),
            tuple(re.compile(p) for p in row["patterns"]),
            tuple(row["masks"]),
            tuple(row.get("keeps", ())),
        )
        for row in rows
    )


def mask(text: str) -> str:
    """Return a text with its secrets masked.

    >>> mask("GET https://user:hunter2@host/x by jane@example.org")
    'GET https://user:[redacted]@host/x by [redacted]'
    """
    lower = text.lower()
    for row in table():
        if any(word in lower for word in row.words):
            for pattern in row.patterns:
                text = pattern.sub(_masked, text)
    return text


def _masked(match: re.Match[str]) -> str:
    if "secret" not in match.re.groupindex:
        return MASK
    whole, start = match.group(), match.start()
    low, high = match.start("secret") - start, match.end("secret") - start
    return whole[:low] + MASK + whole[high:]


class _Keys:
    """Masks the lines of private keys, which only their first and last line tell."""

    def __init__(self) -> None:
        self.left = 0

    def mask(self, text: str) -> str:
        if "PRIVATE KEY-----" in text:
            marks = [m["what"] for m in _KEY.finditer(text)]
            self.left = _KEY_LINES if marks and marks[-1] == "BEGIN" else 0
        elif self.left:
            self.left -= 1
            return _KEY_TEXT.sub(MASK, text)
        return text


def redact(excerpt: Excerpt) -> Excerpt:
    """Return what was kept of a log with its secrets masked, in lines and in file names."""
    keys = [_Keys() for _ in excerpt.files]
    lines = []
    for line in excerpt.lines:
        text = mask(keys[line.file].mask(line.text))
        if len(text) > _LONG:
            text = _END_WORDS.sub(MASK, text)
        lines.append(line if text == line.text else RawLine(line.file, line.number, text))
    files = tuple(file._replace(name=mask(file.name)) for file in excerpt.files)
    return excerpt._replace(source=mask(excerpt.source), files=files, lines=tuple(lines))


def mask_pieces(pieces: Iterable[tuple[bytes, bool]]) -> Iterator[tuple[bytes, bool]]:
    """Mask the secrets in (piece, begins) of lines; a line's pieces are cut between words, however it came."""
    keys, held, begun = _Keys(), b"", True
    for piece, begins in pieces:
        whole, begins = held + piece, begun if held else begins
        cut = len(whole) if whole.endswith(b"\n") else max(whole.rfind(b" ") + 1, len(whole) - _HELD)
        held, begun = whole[cut:], begins and not cut
        if cut:
            text = whole[:cut].decode("utf-8", "surrogateescape")
            yield mask(keys.mask(text)).encode("utf-8", "surrogateescape"), begins
    if held:
        yield mask(held.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"), begun
