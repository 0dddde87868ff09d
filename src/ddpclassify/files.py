"""Files that are whole or as they were, and folders with one writer, whatever happens: a kill, a full disk, a rival."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ddpclassify.types import InputError

__all__ = ["alone", "whole_lines", "write_whole"]

_HALF = ".half"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name and rename it, so that nobody ever sees half of it.

    Raises
    ------
    InputError : it can't be written; then what was there before still is
    """
    half = path.with_name(f".{path.name}.{os.getpid()}{_HALF}")
    try:
        with half.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may keep the new name and lose the bytes
        half.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            half.unlink()
        raise InputError(f"{path}: {error.strerror or error}") from error


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
