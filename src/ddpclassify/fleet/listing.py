"""Which logs there are, and by what it is told that one has changed."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ddpclassify.fleet import remote
from ddpclassify.read.sources import hint, list_files, list_jobs
from ddpclassify.types import InputError

_BLOCK = 1 << 20


class Item(NamedTuple):
    """A log to diagnose. `state` differs when the log has changed, and is None where nobody can tell."""

    name: str
    state: str | None
    modified: float | None


def listed(arguments: Iterable[str], lines: Iterable[str]) -> Iterator[str]:
    """Yield the name of every log, in the order of the arguments and sorted inside each.

    Parameters
    ----------
    arguments : a file; a pattern (``*``, ``?``, ``**``), whose matches are logs; a folder, of which every file and
        folder is a log, or which is one log itself when it holds the file of a rank 0; a URL of any of these; ``-``
    lines : what ``-`` stands for: one log a line

    Raises
    ------
    InputError : a pattern matches nothing, or a folder holds no log
    """
    for argument in arguments:
        if argument == "-":
            yield from (_plain(name) for line in lines if (name := line.rstrip("\r\n")))
        elif remote.is_url(argument):
            yield from remote.listed(argument)
        elif glob.has_magic(argument) and not Path(argument).exists():
            found = sorted(glob.iglob(argument, recursive=True))  # noqa: PTH207 - absolute patterns too
            if not found:
                raise InputError(f"{argument}: no file has such a name")
            yield from map(_plain, found)
        elif Path(argument).is_dir() and not _is_job(Path(argument)):
            yield from map(str, list_jobs(Path(argument)))
        else:
            yield _plain(argument)


def _plain(name: str) -> str:
    """Return a name without what makes no difference: a log is known by its name.

    >>> _plain("./logs//a.log"), _plain("s3://bucket//a.log")
    ('logs/a.log', 's3://bucket//a.log')
    """
    return name if remote.is_url(name) else str(Path(name))


def _is_job(folder: Path) -> bool:
    """Whether a folder holds the files of one job: that of rank 0, or of torchrun's attempt 0."""
    # The word must be there: "0.log" may be a rank's file, and job number 0 of a folder of jobs.
    return (folder / "attempt_0").is_dir() or any("rank" in p.name and hint(p.name).rank == 0 for p in folder.iterdir())


def item(name: str, content: bool = False) -> Item:
    """Return a log with what its state is: size and time of change, or with `content` a hash of its bytes."""
    try:
        if remote.is_url(name):
            return Item(name, *remote.state(name))
        files = [path for _, path in list_files(Path(name))]
        stats = [path.stat() for path in files]
        modified = max(stat.st_mtime for stat in stats)
        if content:
            state = _hashed(files)
        elif len(files) == 1:
            state = f"{stats[0].st_size}:{stats[0].st_mtime_ns}"
        else:
            each = "\n".join(f"{p}:{s.st_size}:{s.st_mtime_ns}" for p, s in zip(files, stats, strict=True))
            state = hashlib.blake2b(each.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    except (OSError, InputError):  # reading it will tell why
        return Item(name, None, None)
    return Item(name, state, modified)


def _hashed(files: list[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()
