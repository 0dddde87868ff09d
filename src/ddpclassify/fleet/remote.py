"""Logs in object stores and on other machines, through fsspec: ``s3://…``, ``gs://…``, ``hdfs://…``, ``https://…``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any

from ddpclassify.types import InputError

# What stores call the things by which a change shows; the first that is there counts.
_TAGS = ("ETag", "etag", "md5Hash", "checksum", "mtime", "LastModified", "last_modified", "updated", "created")
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


def is_url(name: str) -> bool:
    """Whether a name is a URL.

    >>> is_url("s3://bucket/a.log"), is_url("C:/a.log"), is_url("logs/a:b.log")
    (True, False, False)
    """
    scheme, found, _ = name.partition("://")
    return bool(found) and len(scheme) > 1 and scheme.replace("+", "").isalnum()


def _opened(url: str) -> tuple[Any, str]:
    try:
        fsspec = import_module("fsspec")
    except ImportError:
        raise InputError(f"{url}: reading URLs needs fsspec: pip install 'ddpclassify[fleet-remote]'") from None
    with _told(url):
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Turn whatever a store raises into one line: each has errors of its own."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{url}: No such file or directory") from None
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{url}: {first}") from error


def listed(url: str) -> Iterator[str]:
    """Yield the logs of a URL: itself, the matches of a pattern, or what is in a folder."""
    fs, path = _opened(url)
    with _told(url):
        if any(c in path for c in "*?["):
            found = sorted(fs.glob(path))
            if not found:
                raise InputError(f"{url}: no file has such a name")
        elif fs.isdir(path):
            found = sorted(fs.ls(path, detail=False))
        else:
            found = [path]
        yield from (fs.unstrip_protocol(name) if len(found) > 1 or name != path else url for name in found)


def state(url: str) -> tuple[str | None, float | None]:
    """Return the state and the time of change of a log."""
    fs, path = _opened(url)
    with _told(url):
        info = fs.info(path)
    if info.get("type") == "directory":
        return None, None
    tag = next((str(info[key]) for key in _TAGS if info.get(key)), None)
    return tag and f"{info.get('size')}:{tag}", next((t for key in _TIMES if (t := _seconds(info.get(key)))), None)


def _seconds(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    return float(value) if isinstance(value, (int, float)) else None


@contextmanager
def local(name: str) -> Iterator[str]:
    """Give a log as a local path; that of a URL is fetched to a temporary place, not held in memory."""
    if not is_url(name):
        yield name
        return
    fs, path = _opened(name)
    with tempfile.TemporaryDirectory(prefix="ddpclassify-") as folder:
        target = Path(folder) / (path.rstrip("/").rpartition("/")[2] or "log")
        with _told(name):
            fs.get(path, str(target), recursive=fs.isdir(path))
        yield str(target)
