"""Run a job as if nobody watched, keep its log, and diagnose it when it fails."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from ddpclassify.language import say as tell
from ddpclassify.wrap.channels import Sink
from ddpclassify.wrap.job import Job
from ddpclassify.wrap.record import Record
from ddpclassify.wrap.settings import SETTINGS, settle

__all__ = ["SETTINGS", "run_job"]

Log = Path | Iterator[bytes]
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as shells have it


def run_job(
    command: list[str],
    logs: Path,
    off: Collection[str] = (),
    quiet: bool = False,
    diagnose: Callable[[Log, int, Path | None], str] | None = None,
) -> int:
    """Run a command and return its exit status, 128 + n when signal n ended it.

    Parameters
    ----------
    command : what to run
    logs : folder in which a folder for this run is made
    off : names of settings (`SETTINGS`) to leave out
    quiet : say nothing of our own but a diagnosis
    diagnose : gives the text to print below the output of a job that failed, from its log, its exit status and the
        file in which torchrun or the job may have left its error

    Notes
    -----
    The job comes first: a full disk, a log that can't be made or a fault in the diagnosis is said in one line, and
    changes neither its output nor its exit status.
    """
    say = _say if not quiet else lambda text: None
    record: Record | None = None
    env = dict(os.environ)
    try:
        record = Record(logs, _say)
        command, env, said = settle(command, env, record.folder, off)
        added = tell("; set {settings} (--no-… or --plain leaves it)", settings=", ".join(said)) if said else ""
        say(tell("log in {folder}", folder=record.folder) + added)
    except OSError as error:
        _say(tell("no log is kept: {error}", error=error.strerror or error))
    began, started = time.monotonic(), time.time()
    try:
        job = Job(command, env)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        _say(f"{command[0]}: {tell('command not found') if missing else error.strerror or error}")
        return _NOT_FOUND if missing else _NOT_EXECUTABLE
    if record is None:
        return job.run(lambda channel, piece: None)
    record.whole_lines = len(job.channels) > 1
    status = job.run(_careful(record.take))
    record.close()
    if status:
        seconds = f"{time.monotonic() - began:.0f}"
        end = "exit status {status} after {seconds} s; full log in {path}"
        say(tell(end, status=status, seconds=seconds, path=record.path))
        if diagnose is not None:
            _diagnose(record, status, _left(env.get("TORCHELASTIC_ERROR_FILE"), started), diagnose)
    return status


def _left(error_file: str | None, started: float) -> Path | None:
    """The error file, if this run has left it."""
    try:
        return Path(error_file) if error_file and Path(error_file).stat().st_mtime >= started - 2 else None
    except OSError:
        return None


def _careful(sink: Sink) -> Sink:
    """Return a sink that gives up at its first fault, and says so, instead of stopping the job's output."""
    working = True

    def take(channel: int, piece: bytes) -> None:
        nonlocal working
        if working:
            try:
                sink(channel, piece)
            except Exception as error:
                working = False
                told = f"{type(error).__name__}: {error}"
                _say(tell("the log ends here, the job goes on ({error})", error=told))

    return take


def _diagnose(
    record: Record, status: int, error_file: Path | None, diagnose: Callable[[Log, int, Path | None], str]
) -> None:
    try:
        text = diagnose(record.lines(), status, error_file)
    except BaseException as error:  # whatever it is, also Ctrl-C: the job's exit status stands
        told = f"{type(error).__name__}: {error}"
        _say(tell("no diagnosis ({error}); try `ddpclassify predict {path}`", error=told, path=record.path))
        return
    _put("\n" + text + "\n")


def _say(text: str) -> None:
    _put("ddpclassify: " + "".join(c if c.isprintable() else " " for c in text) + "\n")


def _put(text: str) -> None:
    with contextlib.suppress(OSError):
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(2, data) :]
