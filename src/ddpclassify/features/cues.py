"""Phrases that hint at categories: `cues.toml` as counts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ddpclassify.tables import read_toml
from ddpclassify.types import Failure

_MAX_TEXT = 4000


@cache
def _cues() -> dict[str, tuple[tuple[str, ...], ...]]:
    table = read_toml(Path(__file__).with_name("cues.toml"))
    return {category: tuple(tuple(cue.split(" & ")) for cue in cues) for category, cues in table.items()}


def cues(failure: Failure) -> dict[str, int]:
    """Return how many cues of each category a failure's first statement holds."""
    event = failure.first
    names = " ".join(f"{frame.path.rpartition('/')[2]} {frame.function}" for frame in event.frames[-3:])
    more = " ".join(line.text for line in event.more[:6])
    text = f"{event.exception}: {event.text} {more} {names}"[:_MAX_TEXT].lower()
    found = {}
    for category, table in _cues().items():
        count = sum(all(part in text for part in cue) for cue in table)
        if count:
            found[category] = count
    return found
