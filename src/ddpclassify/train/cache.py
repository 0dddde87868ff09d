"""Described logs kept on disk: a corpus is read once for each version of the program.

A log is known by its bytes and file names, the program by the bytes of what turns logs into features. The files are
pickles, so the folder is the user's own, never one from a stranger. (joblib's Memory reads them several times slower.)
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from ddpclassify.events import extract
from ddpclassify.features import Described, describe
from ddpclassify.fold import fold
from ddpclassify.ranks import attribute
from ddpclassify.read import read
from ddpclassify.read.sources import list_files
from ddpclassify.types import InputError

_PACKAGE = Path(__file__).parents[1]
_STAGES = ("read", "ranks", "events", "fold", "features")
_KEPT_SECONDS = 60 * 86400
_BLOCK = 1 << 20

Progress = Callable[[str, int, int], None]  # told what is done, how many logs, of how many


def default_cache() -> Path:
    """Return the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ddpclassify"


def pipeline(path: Path) -> Described:
    """Run all stages before the models on one log."""
    return describe(fold(extract(attribute(read(path)))))


def content_key(path: Path) -> str:
    """Return a digest of a log's files and of their names, which may tell ranks.

    Raises
    ------
    InputError : nothing readable is there
    """
    digest = hashlib.sha256()
    try:
        for source, file in list_files(path):
            digest.update(f"{source.name}\0{file.stat().st_size}\0".encode("utf-8", "surrogateescape"))
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    return digest.hexdigest()[:32]


@cache
def program_key() -> str:
    """Return a digest of the code and tables that turn a log into features, and of the Python that runs them."""
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    files = [p for name in _STAGES for p in (_PACKAGE / name).rglob("*") if p.suffix in (".py", ".toml")]
    for path in sorted([*files, *_PACKAGE.glob("*.py")]):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _one(path: Path, folder: Path | None) -> tuple[str, Described]:
    """Describe one log, or take it from the cache."""
    key = content_key(path)
    if folder is None:
        return key, pipeline(path)
    kept = folder / key
    try:
        found = pickle.loads(zlib.decompress(kept.read_bytes()))
        if isinstance(found, Described):
            return key, found
    except Exception:  # missing, or damaged in any way: made anew
        pass
    made = pipeline(path)
    temporary = folder / f".{key}.{os.getpid()}"
    temporary.write_bytes(zlib.compress(pickle.dumps(made, pickle.HIGHEST_PROTOCOL), 1))
    temporary.replace(kept)
    return key, made


def _folder(cache: Path) -> Path:
    """Return the folder for this version of the program; those of versions that nobody used for long are removed."""
    here = cache / f"described-{program_key()}"
    try:
        here.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(here)
        for other in cache.glob("described-*"):
            if time.time() - other.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        raise InputError(f"{cache}: no folder for a cache: {error.strerror or error}") from error
    return here


def describe_logs(
    paths: Sequence[Path], jobs: int = -1, cache: Path | None = None, progress: Progress | None = None
) -> Iterator[tuple[str, Described]]:
    """Yield each log's content key and the log described, in order.

    Parameters
    ----------
    jobs : processes; -1 for all cores
    cache : folder that keeps the results; None for none

    Raises
    ------
    InputError : a log that can't be read
    """
    from joblib import Parallel, delayed

    folder = None if cache is None else _folder(cache)
    pool = Parallel(n_jobs=jobs, batch_size=8, pre_dispatch="4 * n_jobs", return_as="generator")
    for number, each in enumerate(pool(delayed(_one)(path, folder) for path in paths), 1):
        if progress is not None:
            progress("logs read", number, len(paths))
        yield each
