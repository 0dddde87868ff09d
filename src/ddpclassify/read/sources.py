"""What a user may name as a log: a file, a folder of per-rank files, a compressed file, standard input."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from ddpclassify.read.scan import BLOCK
from ddpclassify.types import InputError, SourceFile

# What a path says of its writer, innermost component first. torchrun: <run>/attempt_<k>/<local rank>/stderr.log;
# DeepSpeed: <stamp>_rank<global>.log; the others are habits of people and schedulers.
_PATH_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("attempt local_rank", re.compile(r"(?:^|/)attempt_(?P<attempt>\d+)/(?P<local_rank>\d+)/[^/]*$")),
    ("rank", re.compile(r"(?:^|[^a-z])(?:global[-_.]?)?rank[-_.=]?(?P<rank>\d+)[^/]*$", re.I)),
    (
        "rank",
        re.compile(r"(?:^|/)(?:worker|proc|process|task|out|log|err|std(?:out|err))[-_.](?P<rank>\d+)\.[a-z.]+$", re.I),
    ),
    ("rank", re.compile(r"(?:^|/)(?P<rank>\d+)\.(?:log|out|err|txt)(?:\.\w+)?$")),
)
_HOST = re.compile(r"(?:^|/)(?P<host>(?:node|host|pod|worker|ip)[-_]?[\w.-]*?\d+)(?=/|[-_.](?:rank|attempt|\d))", re.I)
_LOG_NAME = re.compile(
    r"\.(?:log|out|err|txt|json|jsonl|stdout|stderr|\d+)(?:\.(?:gz|bz2|xz|zst))?$|^(?:stdout|stderr|log|out|err)$", re.I
)


def list_files(path: Path) -> list[tuple[SourceFile, Path]]:
    """Return the files of a log with what their names say; a folder's in natural order of their paths.

    Raises
    ------
    InputError : nothing readable is there
    """
    if not path.is_dir():
        return [(SourceFile(name=path.name), path)]
    found = sorted(
        (p for p in path.rglob("*") if p.is_file() and (_LOG_NAME.search(p.name) or "rank" in p.name)),
        key=lambda p: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", str(p.relative_to(path)))],
    )
    if not found:
        raise InputError(f"{path}: no log files in this folder")
    return [(hint(p.relative_to(path).as_posix()), p) for p in found]


def hint(name: str) -> SourceFile:
    """Return a file of a folder with the rank, attempt and host that its path states.

    >>> hint("none_ab12/attempt_0/3/stderr.log").local_rank
    3
    >>> hint("node2/rank11.log")
    SourceFile(name='node2/rank11.log', rank=11, local_rank=None, host='node2', attempt=None)
    """
    host = _HOST.search(name)
    for _, pattern in _PATH_RULES:
        if match := pattern.search(name):
            got = {k: int(v) for k, v in match.groupdict().items()}
            return SourceFile(name=name, host=host["host"] if host else None, **got)
    return SourceFile(name=name, host=host["host"] if host else None)


def read_chunks(path: Path | None) -> Iterator[bytes]:
    """Yield a file's bytes (standard input's for `None`) in pieces of up to `BLOCK`, decompressed, as UTF-8.

    Compression and UTF-16 are told by their first bytes, not by the name. A compressed file that ends early or turns
    bad gives what could be read, as long as that is something.

    Raises
    ------
    InputError : the file is missing, unreadable, or compressed but broken from the start
    """
    name = "standard input" if path is None else str(path)
    try:
        raw: IO[bytes] = sys.stdin.buffer if path is None else path.open("rb")
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    with raw:
        buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", raw))
        try:
            head = buffered.peek(6)[:6]
            yield from _transcode(_pieces(_decompressed(buffered, head), name))
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from error


def _decompressed(raw: io.BufferedReader, head: bytes) -> IO[bytes]:
    if head.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if head.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(raw)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        return cast("IO[bytes]", zstd.ZstdFile(raw))
    return raw


def _pieces(stream: IO[bytes], name: str) -> Iterator[bytes]:
    some = False
    while True:
        try:
            piece = stream.read(BLOCK)
        except Exception as error:  # each codec has its own class of error; a half log is better than none
            if some:
                print(f"ddpclassify: {name}: damaged at its end ({error}); read up to there", file=sys.stderr)
                return
            raise InputError(f"{name}: can't be decompressed: {error}") from error
        if not piece:
            return
        some = True
        yield piece


def _transcode(pieces: Iterator[bytes]) -> Iterator[bytes]:
    decoder = None
    for number, piece in enumerate(pieces):
        if number == 0 and piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(piece).encode("utf-8", "replace") if decoder else piece
