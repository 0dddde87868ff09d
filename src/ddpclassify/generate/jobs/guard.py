"""A process beside a run of jobs: when the run ends, in whatever way, it kills what is left and removes the folder.

Started as a script with the folder as its argument; it waits for the end of its standard input, which the run holds
open. Every process of a job has its TMPDIR below the folder, and is found by that wherever it has moved to. Imports
nothing of this package, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path


def kill_below(folder: str | Path) -> None:
    """Kill every process whose TMPDIR lies below the folder."""
    mark = b"\0TMPDIR=" + os.fsencode(folder) + b"/"
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        found = [pid for pid, environment in _environments() if mark in environment]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.05)


def _environments() -> list[tuple[int, bytes]]:
    out = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # another user's, or gone
            out.append((int(file.parent.name), b"\0" + file.read_bytes()))
    return out


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    kill_below(sys.argv[1])
    shutil.rmtree(sys.argv[1], ignore_errors=True)
