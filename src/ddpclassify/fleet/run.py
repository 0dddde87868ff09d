"""Diagnose what is new or has changed, part by part."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from ddpclassify.api import load_model
from ddpclassify.fleet.engine import Engine
from ddpclassify.fleet.listing import Item, item
from ddpclassify.fleet.store import Store
from ddpclassify.fleet.work import diagnose, failed, made_by

__all__ = ["Counts", "run"]


@dataclass
class Counts:
    """What a run did."""

    diagnosed: int = 0
    unchanged: int = 0
    unreadable: int = 0
    stopped: bool = False

    @property
    def listed(self) -> int:
        return self.diagnosed + self.unchanged + self.unreadable


def run(
    names: Iterable[str],
    store: Store,
    engine: Engine,
    *,
    model: Path | None = None,
    part: int = 2000,
    content: bool = False,
    written: Callable[[Path], object] = lambda path: None,
    told: Callable[[Counts], object] = lambda counts: None,
) -> Counts:
    """Diagnose logs and keep the answers.

    Parameters
    ----------
    names : of the logs, from `listing.listed`; one named twice is read once
    part : logs of a part; no more answers are ever in memory
    content : tell changes by the bytes of a log, not by size and time
    written, told : called with every new part, and with the counts so far
    """
    by = made_by(load_model(model))
    work = partial(diagnose, model=None if model is None else str(model))
    counts = Counts()

    def dead(log: Item) -> str:
        why = f"{log.name}: the process that read it was killed, perhaps for want of memory"
        return json.dumps(failed(log, why, by, again=True))

    pending = _changed(names, store, by, content, counts)
    with _Stop() as stop:
        while not counts.stopped:
            items: list[Item] = []
            answers: dict[int, list[str]] = {}
            try:
                with stop.at_once():
                    items = list({each.name: each for each in islice(pending, part)}.values())
                    for start, lines in engine.map(work, items, dead):
                        answers[start] = lines
            except KeyboardInterrupt:
                counts.stopped = True
            finally:  # keep what is there, also where the cluster is lost; the next run does the rest
                lines = [line for start in sorted(answers) for line in answers[start]]
                fresh = list(_fresh(lines, store, counts))
                if fresh:
                    written(store.add(fresh))
            if not items:
                break
            told(counts)
    return counts


def _changed(names: Iterable[str], store: Store, by: str, content: bool, counts: Counts) -> Iterator[Item]:
    for name in names:
        log = item(name, content)
        known = store.known(name)
        if known is None or log.state is None or known[:2] != (log.state, by):
            yield log
        elif known[2] is not None:
            counts.unreadable += 1
        else:
            counts.unchanged += 1


def _fresh(lines: Iterable[str], store: Store, counts: Counts) -> Iterator[str]:
    """Pass on what the store does not know: an unreadable log, tried once more in vain, has its row already."""
    for line in lines:
        row: dict[str, Any] = json.loads(line)
        error = row.get("error")
        counts.diagnosed += error is None
        counts.unreadable += error is not None
        known = store.known(row["source"])
        if (
            error is None
            or known is None
            or known[2] is None
            or known[:2] != (row["fleet"]["state"], row["fleet"]["by"])
        ):
            yield line


class _Stop:
    """Ctrl-C and SIGTERM end a run with what is done kept: at once while logs are read, never inside a write."""

    def __init__(self) -> None:
        self._asked = self._reading = False

    def __enter__(self) -> _Stop:
        self._before = {each: signal.signal(each, self._note) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        if self._reading:
            raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Raise KeyboardInterrupt in here when a signal comes, or has come."""
        try:
            self._reading = True
            if self._asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._reading = False
