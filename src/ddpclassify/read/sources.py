"""What a user may name as a log: a file, a folder of per-rank files, a compressed file, standard input."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import IO, cast

from ddpclassify.patterns import lazy
from ddpclassify.read.blocks import Fill, from_pieces
from ddpclassify.types import InputError, SourceFile

# What a path says of its writer, innermost component first. torchrun: <run>/attempt_<k>/<local rank>/stderr.log;
# DeepSpeed: <stamp>_rank<global>.log; the others are habits of people and schedulers.
_PATH_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("attempt local_rank", lazy(r"(?:^|/)attempt_(?P<attempt>\d+)/(?P<local_rank>\d+)/[^/]*$")),
    ("rank", lazy(r"(?:^|[^a-z])(?:global[-_.]?)?rank[-_.=]?(?P<rank>\d+)[^/]*$", re.I)),
    (
        "rank",
        lazy(r"(?:^|/)(?:worker|proc|process|task|out|log|err|std(?:out|err))[-_.](?P<rank>\d+)\.[a-z.]+$", re.I),
    ),
    ("rank", lazy(r"(?:^|/)(?P<rank>\d+)\.(?:log|out|err|txt)(?:\.\w+)?$")),
)
_HOST = lazy(r"(?:^|/)(?P<host>(?:node|host|pod|worker|ip)[-_]?[\w.-]{0,250}?\d)(?=/|[-_.](?:rank|attempt|\d))", re.I)
_LOG_NAME = lazy(
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
    found = _natural((p for p in path.rglob("*") if p.is_file() and _is_log(p)), path)
    if not found:
        raise InputError(f"{path}: no log files in this folder")
    return [(hint(p.relative_to(path).as_posix()), p) for p in found]


def list_jobs(path: Path) -> list[Path]:
    """Return the logs in a folder of many jobs: its files, and its folders as one job each.

    Raises
    ------
    InputError : not a folder, or none in it
    """
    try:
        found = _natural((p for p in path.iterdir() if S_ISDIR(_mode(p)) or (_is_log(p) and not is_special(p))), path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    if not found:
        raise InputError(f"{path}: no logs in this folder")
    return found


def _is_log(path: Path) -> bool:
    return bool(_LOG_NAME.search(path.name)) or "rank" in path.name


def is_special(path: Path) -> bool:
    """Whether it is a pipe, a socket or a device: reading one may never end."""
    mode = _mode(path)
    return bool(mode) and not S_ISREG(mode) and not S_ISDIR(mode)


def _mode(path: Path) -> int:
    """Return what kind of file it is; 0 where that can't be told: reading it will say why."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _natural(paths: Iterable[Path], root: Path) -> list[Path]:
    """Sort as people count: rank 2 before rank 10."""
    return sorted(
        paths, key=lambda p: [int(t) if t.isdecimal() else t for t in re.split(r"(\d+)", str(p.relative_to(root)))]
    )


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


@contextmanager
def opened(path: Path | None) -> Iterator[Fill]:
    """Open a file (standard input for `None`); what it gives is decompressed, and UTF-8.

    Compression and UTF-16 are told by their first bytes, not by the name. A compressed file that ends early or turns
    bad gives what could be read, as long as that is something.

    Raises
    ------
    InputError : the file is missing, unreadable, or compressed but broken from the start
    """
    name = "standard input" if path is None else str(path)
    try:
        raw: IO[bytes] = sys.stdin.buffer if path is None else path.open("rb")
        with raw:
            if path is not None and stat.S_ISCHR(os.fstat(raw.fileno()).st_mode) and not _ends(raw, path):
                raise InputError(f"{name}: a device, not a log")
            buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", raw))
            head = buffered.peek(6)[:6]
            unpack = next((unpack for magic, unpack in _CODECS if head.startswith(magic)), None)
            if unpack is None:
                yield _utf8(_plain(buffered))
            else:
                plain = _unpacked(unpack(buffered), name)
                # A thread that waits for standard input could not be ended.
                yield _utf8(plain if path is None else _ahead(plain))
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error


def _ends(device: IO[bytes], path: Path) -> bool:
    """Whether reading a device comes to an end: /dev/zero and its like never do."""
    return device.isatty() or str(path) == os.devnull


def _plain(stream: io.BufferedReader) -> Fill:
    return stream.readinto


def _ahead(fill: Fill) -> Fill:
    from ddpclassify.read.ahead import ahead

    return ahead(fill)


def _unpacked(unpack: Fill, name: str) -> Fill:
    some = over = False

    def fill(view: memoryview) -> int:
        nonlocal some, over
        n = 0
        while n < len(view) and not over:
            try:
                got = unpack(view[n:])
            except Exception as error:  # each codec has its own class of error; a half log is better than none
                if not (some or n):
                    raise InputError(f"{name}: can't be decompressed: {error}") from error
                print(f"ddpclassify: {name}: damaged at its end ({error}); read up to there", file=sys.stderr)
                got = 0
            n, over = n + got, not got
        some = some or n > 0
        return n

    return fill


def _utf8(fill: Fill) -> Fill:
    """Recode UTF-16, told by its first bytes."""
    first = bytearray(2)
    n = fill(memoryview(first))
    n += fill(memoryview(first)[n:]) if n == 1 else 0
    start = bytes(first[:n])
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return from_pieces(_recoded(start, fill))
    pending = [start] if start else []

    def after(view: memoryview) -> int:
        if pending:
            view[:n] = pending.pop()
            return n
        return fill(view)

    return after


def _recoded(start: bytes, fill: Fill) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    decoder.decode(start)
    buffer = bytearray(1 << 16)
    while n := fill(memoryview(buffer)):
        yield decoder.decode(bytes(buffer[:n])).encode("utf-8", "replace")


# A codec that fails loses the piece that it is at, and the last lines are those that matter: so the pieces are small.
_PIECE = 1 << 14


def _gzip(raw: io.BufferedReader) -> Fill:
    return from_pieces(_gunzipped(raw))


def _gunzipped(raw: io.BufferedReader) -> Iterator[bytes]:
    """Yield the content of all members of a gzip file; of one that ends early, all that it holds before the error."""
    try:
        from isal import isal_zlib as codec  # some three times faster
    except ImportError:
        import zlib as codec  # type: ignore[no-redef]
    member, data, more = codec.decompressobj(wbits=31), b"", False
    while more or (data := data or raw.read1(_PIECE)):
        if member.eof:
            data = data.lstrip(b"\0")  # tapes are filled up with them
            if not data:
                continue
            member = codec.decompressobj(wbits=31)
        piece = member.decompress(data, _PIECE)
        yield piece
        more = len(piece) == _PIECE and not member.eof
        data = member.unused_data if member.eof else member.unconsumed_tail
    if not member.eof:
        raise EOFError("it ends early")


def _by_pieces(stream: io.BufferedIOBase) -> Fill:
    return lambda view: stream.readinto1(view[:_PIECE])


def _bzip2(raw: io.BufferedReader) -> Fill:
    from bz2 import BZ2File

    return _by_pieces(BZ2File(raw))


def _xz(raw: io.BufferedReader) -> Fill:
    from lzma import LZMAFile

    return _by_pieces(LZMAFile(raw))


def _zstd(raw: io.BufferedReader) -> Fill:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return _by_pieces(cast("io.BufferedIOBase", zstd.ZstdFile(raw)))


_CODECS: tuple[tuple[bytes, Callable[[io.BufferedReader], Fill]], ...] = (
    (b"\x1f\x8b", _gzip),
    (b"BZh", _bzip2),
    (b"\xfd7zXZ\x00", _xz),
    (b"\x28\xb5\x2f\xfd", _zstd),
)
