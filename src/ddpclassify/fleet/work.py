"""What a process does with its share of the logs; it knows nothing of the others."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ddpclassify import __version__
from ddpclassify.api import Model, load_model
from ddpclassify.fleet.listing import Item
from ddpclassify.fleet.remote import local
from ddpclassify.fleet.signature import SCHEME, issue
from ddpclassify.read.sources import is_special
from ddpclassify.types import SCHEMA, Diagnosis, Folded, InputError

_OLDEST = datetime(2015, 1, 1)  # a log without a year gives an older time


def made_by(model: Model) -> str:
    """Return what an answer depends on besides the log: another value, and the log is diagnosed again."""
    return f"{__version__} {model.card.get('sha256', '')[:16]} {SCHEME}"


def diagnose(items: list[Item], model: str | None) -> list[str]:
    """Return a line of JSON for each log: what `predict --json` writes, and ``fleet`` with what counts across jobs."""
    loaded = load_model(model)
    return [json.dumps(_row(each, loaded), ensure_ascii=True) for each in items]


def failed(item: Item, error: str, by: str, again: bool = False) -> dict[str, Any]:
    """Return the row of a log that could not be read; with `again` the next run tries once more."""
    fleet = {"state": None if again else item.state, "by": by, "seen": _seen(None, item)}
    return {"schema": SCHEMA, "source": item.name, "error": error, "fleet": fleet}


def _row(item: Item, model: Model) -> dict[str, Any]:
    by = made_by(model)
    path = item.name
    try:
        if is_special(Path(item.name)):
            raise InputError(f"{item.name}: not a file")
        with local(item.name) as path:
            folded, diagnosis = model.explain(path)
            diagnosis.source = item.name
            return {**diagnosis.to_dict(), "fleet": _across(folded, diagnosis, item, by)}
    except InputError as error:
        return failed(item, str(error).replace(path, item.name), by)
    except Exception as error:  # one odd log must not stop a hundred thousand others
        return failed(item, f"{item.name}: {type(error).__name__}: {error}", by)


def _across(folded: Folded, diagnosis: Diagnosis, item: Item, by: str) -> dict[str, Any]:
    facts = folded.events.log.facts
    hosts = {*facts.hosts, *(line.host for line in folded.events.log.lines), diagnosis.culprit_host}
    mine = issue(folded, diagnosis)
    times = [f["first_time"] for f in diagnosis.failures if f["role"] == "cause" and f["first_time"]]
    return {
        "state": item.state,
        "by": by,
        "seen": _seen(min(times, default=None), item),
        "hosts": sorted(host for host in hosts if host),
        "issue": mine and mine.signature,
        "title": mine and mine.title,
        "why": mine and mine.why,
    }


def _seen(stated: str | None, item: Item) -> str | None:
    """When it happened: what the log says, where it says a whole date; else when the log was last written."""
    written = None
    if item.modified is not None:
        written = datetime.fromtimestamp(item.modified, timezone.utc).replace(tzinfo=None).isoformat(timespec="seconds")
    if stated is not None and datetime.fromisoformat(stated) >= _OLDEST:
        return stated[:19]
    return written


__all__ = ["diagnose", "failed", "made_by"]
