"""Files that are whole or as they were, and folders with one writer, whatever happens: a kill, a full disk, a rival."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE, S_ISREG

from ddpclassify.types import InputError

__all__ = ["add_line", "alone", "whole_lines", "write_whole"]

_HALF = ".half"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name and rename it, so that nobody ever sees half of it.

    A link goes on pointing to the file, and the file keeps who may read and write it. Into a pipe or a device, as
    ``/dev/stdout``, it is written as it is.

    Raises
    ------
    InputError : it can't be written; then what was there before still is
    """
    data = content.encode() if isinstance(content, str) else content
    half: Path | None = None
    try:
        mode = path.stat().st_mode if path.exists() else None
        if mode is not None and not S_ISREG(mode):
            path.write_bytes(data)
            return
        whole = Path(os.path.realpath(path))
        half = whole.with_name(f".{whole.name}.{os.getpid()}{_HALF}")
        with half.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), S_IMODE(mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may keep the new name and lose the bytes
        half.replace(whole)
    except OSError as error:
        with contextlib.suppress(OSError):
            if half is not None:
                half.unlink()
        raise InputError(f"{path}: {error.strerror or error}") from error


def add_line(path: Path, line: str) -> None:
    """Add a line to a file that people edit as well: as `write_whole`, and nothing of theirs is lost.

    Raises
    ------
    InputError : it can't be read or written; then it is as it was
    """
    try:
        before = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    if before and not before.endswith(b"\n"):
        before += b"\n"
    write_whole(path, before + line.encode() + b"\n")


def whole_lines(path: Path) -> list[str]:
    """Return the lines of a file that grows by lines, and cut off one that a kill left half written."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        os.truncate(path, len(whole))
    return whole.decode("utf-8").split("\n")[:-1]


def _is(path: Path, handle: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(handle))
    return False


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make a folder and hold it for this process alone; what a killed writer left half written there is removed.

    The system lets go of the lock when the process ends, however it does.

    Raises
    ------
    InputError : another process holds the folder, or it can't be made
    """
    import fcntl

    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # for writing: NFS locks nothing else
        while True:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(path, handle):
                break
            os.close(handle)  # its holder has just removed it
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except BlockingIOError:
        os.close(handle)
        raise InputError(f"{folder}: another run is writing here; wait for it, or give another folder") from None
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}") from error
    try:
        for half in folder.glob(f".*{_HALF}"):
            half.unlink()
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
