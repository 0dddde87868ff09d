"""Rows of results made by hand, and the command as people call it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent.parent / "cases"
NAMES = ("oom-one-of-eight-then-watchdogs", "nameerror-three-ranks-interleaved", "silent-rank-of-eight")


def row(name: str, category: str, origin: str, seen: str = "2026-11-01T00:00:00", **fleet: Any) -> str:
    """Return a row as `fleet` writes it."""
    host = fleet.pop("host", None)
    across: dict[str, Any] = {
        "state": "1:2",
        "by": "test",
        "seen": seen,
        "hosts": [],
        "issue": None,
        "title": None,
        "why": None,
    }
    answer = {"source": name, "category": category, "origin": origin, "retry": "no", "culprit_host": host}
    return json.dumps({**answer, "confidence": 0.9, "culprit_ranks": [3], "fleet": across | fleet})


def logs(folder: Path, count: int) -> Path:
    """Write logs, each different."""
    folder.mkdir(parents=True)
    for number in range(count):
        case = (CASES / f"{NAMES[number % len(NAMES)]}.log").read_bytes()
        (folder / f"job{number}.log").write_bytes(case + b"later\n" * number)
    return folder


def fleet(*args: object, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the command."""
    command = [sys.executable, "-m", "ddpclassify", "fleet", *map(str, args)]
    return subprocess.run(command, input=data, capture_output=True, check=False)


def results(folder: Path) -> list[dict[str, Any]]:
    """Return all rows of a results folder, in order."""
    return [json.loads(line) for part in sorted(folder.glob("part-*.jsonl")) for line in part.read_text().splitlines()]
