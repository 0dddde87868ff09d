"""One file a rank: every line of a log goes to exactly one of the parts, in the log's order.

Bounded by construction: two passes over the log, a buffer of `_BUFFER` bytes, at most `_PARTS` parts.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from ddpclassify.read import read
from ddpclassify.read.blocks import Blocks, Fill
from ddpclassify.read.decode import decode
from ddpclassify.read.sources import list_files, opened
from ddpclassify.redact import mask, mask_pieces
from ddpclassify.split.owners import Owner, Owners
from ddpclassify.types import InputError

__all__ = ["REST", "Part", "Split", "split"]

REST = "no-rank.log"
_PARTS = 16_384  # more than any job has; a log that names more ranks is not believed
_BUFFER = 8 << 20
# Control codes (but tab, line feed, carriage return), C1 codes and bidi controls, as bytes.
_UNSAFE = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]"
)


@dataclass
class Part:
    """One file of the result."""

    file: str
    rank: int | None
    lines: int = 0


@dataclass
class Split:
    """What was written: the parts (by rank, the rest last), and the sizes of the whole log."""

    source: str
    lines: int = 0
    bytes: int = 0
    parts: list[Part] = field(default_factory=list)
    crowded: bool = False  # the log names more than `_PARTS` ranks; those beyond are in the rest
    skipped: list[str] = field(default_factory=list)  # what could not be read of a folder


def split(log: str, out: Path, *, numbered: bool = False, raw: bool = False, redact: bool = False) -> Split:
    """Write one file a rank into a new folder, and one for the lines that no rank owns.

    Parameters
    ----------
    log : a file, a folder of per-rank files, a compressed file, or ``"-"`` for standard input
    out : the folder to make; it appears when everything is written
    numbered : begin every line with its number in the log and a tab, so that `sort -n` puts the log together again
    raw : keep terminal control codes, which are removed otherwise
    redact : mask tokens, keys, passwords and e-mail addresses

    Raises
    ------
    InputError : the log can't be read, or the folder can't be made or is not empty
    """
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"{out}: not empty; give a new folder")
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
            result = _write(log, Path(name), numbered, raw, redact)
            if out.exists():
                out.rmdir()
            (Path(name) / "parts").rename(out)
    except OSError as error:
        # Not the error's own file name: that may be of the folder that would have become `out`.
        raise InputError(f"{out}: {error.strerror or error}") from error
    return result


def _write(log: str, work: Path, numbered: bool, raw: bool, redact: bool) -> Split:
    if log == "-":  # read twice, so it has to lie somewhere
        with opened(None) as fill, (work / "stdin").open("wb") as spool:
            for block, n in Blocks(fill, overlap=0):
                spool.write(memoryview(block)[:n])
        found = list_files(work / "stdin")
        excerpt = read(work / "stdin")
    else:
        found = list_files(Path(log))
        excerpt = read(log)
    owners = Owners(excerpt)
    (work / "parts").mkdir()
    writer = _Writer(work / "parts", Split(mask(log) if redact else log))
    for file, (source, path) in enumerate(found):
        try:
            with opened(path) as fill:
                for line, begins in mask_pieces(_lines(fill)) if redact else _lines(fill):
                    writer.write(line, owners.owner(file, decode(line)) if begins else None, numbered, raw)
            writer.end_line()
        except InputError:
            if len(found) == 1:
                raise
            writer.end_line()
            writer.result.skipped.append(mask(source.name) if redact else source.name)
    return writer.close()


def _lines(fill: Fill) -> Iterator[tuple[bytes, bool]]:
    """Yield (line, begins): a line longer than a block comes in pieces, of which only the first begins one."""
    begins = True
    for buffer, n in Blocks(fill, overlap=0):
        block = bytes(memoryview(buffer)[:n])
        for line in block.splitlines(keepends=True) if b"\r" not in block else _by_feed(block):
            yield line, begins
            begins = line.endswith(b"\n")


def _by_feed(block: bytes) -> Iterator[bytes]:
    *lines, last = block.split(b"\n")
    for line in lines:
        yield line + b"\n"
    if last:
        yield last


class _Writer:
    """Sorts lines into parts, and writes them in batches: thousands of parts need no thousands of open files."""

    def __init__(self, folder: Path, result: Split) -> None:
        self.folder, self.result = folder, result
        self.parts: dict[str, Part] = {}
        self.waiting: dict[str, bytearray] = {}
        self.size = 0
        self.current = Part(REST, None)
        self.open = False

    def write(self, line: bytes, owner: Owner | None, numbered: bool, raw: bool) -> None:
        """Write a line, or a further piece of the last one when `owner` is `None`."""
        self.result.bytes += len(line)
        mark = b""
        if owner is not None:
            self.current = self._part(owner)
            self.current.lines += 1
            self.result.lines += 1
            mark = b"%d\t" % self.result.lines if numbered else b""
        if not raw and _UNSAFE.search(line):
            line = decode(line).encode() + b"\n" * line.endswith(b"\n")
        self._put(mark + line)
        self.open = not line.endswith(b"\n")

    def end_line(self) -> None:
        """End a file's last line when it lacks its line feed, for the next file's lines to begin anew."""
        if self.open:
            self._put(b"\n")
            self.open = False

    def close(self) -> Split:
        """Write what waits, and return the result."""
        self._flush()
        parts = list(self.parts.values())
        self.result.parts = sorted(parts, key=lambda p: (p.file == REST, p.rank is None, p.rank or 0, p.file))
        return self.result

    def _part(self, owner: Owner) -> Part:
        name = _name(owner)
        if name not in self.parts and len(self.parts) >= _PARTS and name != REST:
            self.result.crowded, name, owner = True, REST, Owner()
        return self.parts.setdefault(name, Part(name, owner.rank))

    def _put(self, data: bytes) -> None:
        self.waiting.setdefault(self.current.file, bytearray()).extend(data)
        self.size += len(data)
        if self.size > _BUFFER:
            self._flush()

    def _flush(self) -> None:
        for name, data in self.waiting.items():
            with (self.folder / name).open("ab") as file:
                file.write(data)
        self.waiting.clear()
        self.size = 0


def _name(owner: Owner) -> str:
    """Return a part's file name; a host comes from the log, so only harmless characters of it get in.

    >>> _name(Owner(3)), _name(Owner(None, 1, "../etc")), _name(Owner())
    ('rank3.log', 'etc-09fd18.local1.log', 'no-rank.log')
    """
    if owner.rank is not None:
        return f"rank{owner.rank}.log"
    if owner.local is None:
        return REST
    host = owner.host or "node"
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", host).strip("-")[:64]
    if safe != host:  # two hosts must not become one
        safe += "-" + blake2b(host.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return f"{safe}.local{owner.local}.log"
