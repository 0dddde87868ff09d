"""The folder of results: parts of JSON Lines, and an SQLite file that indexes them.

A part gets its name when it is whole, and is indexed after that. The parts are the truth: what the index lacks is read
from them when the folder is opened, so that a run killed between the two, or an index deleted, loses and doubles
nothing. A log that has changed gets a new row in a later part; the index knows the last one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ddpclassify.types import InputError

__all__ = ["Store"]

_VERSION = 1
"""Of the tables. An index of another version is made anew from the parts."""

_TABLES = {
    "parts": "name TEXT PRIMARY KEY, rows INTEGER",
    "logs": "id INTEGER PRIMARY KEY, name TEXT UNIQUE, state TEXT, made_by TEXT, error TEXT, category TEXT, "
    "reason TEXT, confidence REAL, origin TEXT, retry TEXT, host TEXT, ranks TEXT, seen TEXT, issue TEXT, part TEXT",
    "places": "log INTEGER, host TEXT, PRIMARY KEY (log, host)",
    "issues": "signature TEXT PRIMARY KEY, title TEXT, why TEXT",
}
_FIELDS = ("category", "reason", "confidence", "origin", "retry")


class Store:
    """Opened results; a `writer` is alone in the folder.

    Raises
    ------
    InputError : not a results folder, written by another run right now, or damaged
    """

    def __init__(self, folder: Path, writer: bool) -> None:
        self.folder = folder
        self._lock: sqlite3.Connection | None = None
        try:
            if writer:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = sqlite3.connect(folder / "fleet.lock", timeout=0, isolation_level=None)
                try:
                    self._lock.execute("BEGIN EXCLUSIVE")
                except sqlite3.OperationalError:
                    raise InputError(f"{folder}: another run writes there") from None
            elif not any(folder.glob("part-*.jsonl")):
                raise InputError(f"{folder}: no results of `ddpclassify fleet` are there")
            self.db = sqlite3.connect(folder / "fleet.db", timeout=60)
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{folder}: {error}; the parts are the truth: fleet.db may be deleted") from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.db.close()
        if self._lock is not None:
            self._lock.close()

    def _prepare(self) -> None:
        with self.db:
            if self.db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                for name, columns in _TABLES.items():
                    self.db.execute(f"DROP TABLE IF EXISTS {name}")
                    self.db.execute(f"CREATE TABLE {name} ({columns})")
                self.db.execute("CREATE INDEX logs_issue ON logs (issue)")
                self.db.execute("CREATE INDEX places_host ON places (host)")
                self.db.execute(f"PRAGMA user_version = {_VERSION}")
        known = {name for (name,) in self.db.execute("SELECT name FROM parts")}
        for path in sorted(self.folder.glob("part-*.jsonl")):
            if path.name not in known:
                self._index(path.name, _rows(path))

    def known(self, name: str) -> tuple[str | None, str, str | None] | None:
        """Return (state, made by, error) of a log's last answer; None when there is none."""
        found: tuple[str | None, str, str | None] | None = self.db.execute(
            "SELECT state, made_by, error FROM logs WHERE name = ?", (_text(name),)
        ).fetchone()
        return found

    def add(self, lines: Iterable[str]) -> Path:
        """Write a new part, and index it; returns its path."""
        last = max((path.stem for path in self.folder.glob("part-*.jsonl")), default="part-000000")
        path = self.folder / f"part-{int(last.rpartition('-')[2]) + 1:06}.jsonl"
        half = path.with_name(f".{path.name}.half")
        try:
            with half.open("w", encoding="ascii") as file:
                file.writelines(f"{line}\n" for line in lines)
            half.replace(path)
        except OSError as error:
            half.unlink(missing_ok=True)
            raise InputError(f"{path}: {error.strerror or error}") from error
        self._index(path.name, _rows(path))
        return path

    def _index(self, part: str, rows: Iterable[dict[str, Any]]) -> None:
        with self.db:  # all of a part or nothing
            count = sum(self._put(part, row) for row in rows)
            self.db.execute("INSERT INTO parts VALUES (?, ?)", (part, count))

    def _put(self, part: str, row: dict[str, Any]) -> int:
        fleet = row["fleet"]
        old = self.db.execute("SELECT id FROM logs WHERE name = ?", (_text(row["source"]),)).fetchone()
        if old is not None:
            self.db.execute("DELETE FROM places WHERE log = ?", old)
            self.db.execute("DELETE FROM logs WHERE id = ?", old)
        log = {
            "name": _text(row["source"]),
            "state": fleet["state"],
            "made_by": fleet["by"],
            "error": row.get("error") and _text(row["error"]),
            **{field: row.get(field) for field in _FIELDS},
            "host": row.get("culprit_host"),
            "ranks": json.dumps(row.get("culprit_ranks", [])),
            "seen": fleet["seen"],
            "issue": fleet.get("issue"),
            "part": part,
        }
        names = ", ".join(log)
        marks = ", ".join("?" * len(log))
        number = self.db.execute(f"INSERT INTO logs ({names}) VALUES ({marks})", tuple(log.values())).lastrowid
        hosts = {*fleet.get("hosts", ()), row.get("culprit_host")} - {None}
        self.db.executemany("INSERT INTO places VALUES (?, ?)", [(number, host) for host in sorted(hosts)])
        if fleet.get("issue"):
            self.db.execute(
                "INSERT OR IGNORE INTO issues VALUES (?, ?, ?)",
                (fleet["issue"], fleet["title"], json.dumps(fleet["why"])),
            )
        return 1


def _text(name: str) -> str:
    """A file name may hold bytes that are no UTF-8; SQLite takes only what is."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                if not isinstance(row["source"], str) or not isinstance(row["fleet"], dict):
                    raise ValueError
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{path}:{number}: not a row of `ddpclassify fleet`") from None
            yield row
