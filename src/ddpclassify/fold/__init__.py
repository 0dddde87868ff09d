"""Fold equal events into failures, each with its ranks, count, first line and first time."""

from __future__ import annotations

import hashlib

from ddpclassify.fold.normalise import skeleton
from ddpclassify.types import Event, Events, Failure, Folded

__all__ = ["SCHEME", "fold", "place"]

SCHEME = "folded@2026-12-01"
"""Name of the signature scheme. A change of what counts is a new name: stored signatures keep their meaning."""

_KEPT_EVENTS = 8192  # of one failure; its count goes on
_FAILURES = 4096  # distinct ones; further ones are left out
_SKIP = {"table_root", "table_rank", "spawn_error", "ray_snippet", "clean_exit", "usage", "nccl_last"}
# Fields that tell two statements apart (an exit by signal is not an exit with 1; another collective is another story).
_TELLING = ("code", "signal", "op", "seq", "numel", "shape", "xid", "why")


def fold(events: Events) -> Folded:
    """Fold the events of a log.

    Two events fold when they have the same kind, exception type, message skeleton, innermost user frame and telling
    fields. What varies by rank (numbers, addresses, paths, hosts) does not count; the quoted names in a message do.
    """
    failures: dict[tuple[str, ...], Failure] = {}
    seen: dict[tuple[str, ...], tuple[set[int], dict[str, None]]] = {}  # ranks, and hosts in order
    for event in events.events:
        if event.kind in _SKIP:
            continue
        earlier = event.attempt < events.attempt
        key, why = _key(event)
        key = (*key, "earlier attempt" if earlier else "")
        failure = failures.get(key)
        if failure is None:
            if len(failures) >= _FAILURES:
                continue
            failure = failures[key] = Failure(
                signature=hashlib.blake2b("\0".join((SCHEME, *key)).encode(), digest_size=6).hexdigest(),
                kind=event.kind,
                role_hint=event.role,
                exception=event.exception,
                message=event.text,
                skeleton=key[2],
                location=location(event),
                explanation=why,
                earlier=earlier,
            )
        _add(failure, event, *seen.setdefault(key, (set(), {})))
    for key, failure in failures.items():
        ranks, hosts = seen[key]
        failure.ranks, failure.hosts = tuple(sorted(ranks)), tuple(hosts)
        last = max(e.line.number for e in failure.events)
        failure.recovered = events.last_progress_line > last + 1
    return Folded(events, tuple(failures.values()))


def _key(event: Event) -> tuple[tuple[str, ...], tuple[str, ...]]:
    words = skeleton(event.text)
    kind = event.fields.get("statement", event.kind) if event.kind == "traceback" else event.kind
    where = place(event)
    telling = (
        "" if event.kind == "traceback" else " ".join(f"{k}={event.fields[k]}" for k in _TELLING if k in event.fields)
    )
    if telling and event.kind not in ("nccl_warn", "error_line"):
        words = ""
    key = (kind, event.exception, words, where, telling)
    why = tuple(
        f"{name}: {value}" if value else f"{name}: not counted ({reason})"
        for name, value, reason in (
            ("kind", key[0], ""),
            ("exception", key[1], "no exception"),
            ("message", key[2], "the fields below tell more"),
            ("user frame", key[3], "no frame of the user's own files"),
            ("fields", key[4], "none"),
        )
    )
    return key, why


def place(event: Event) -> str:
    """Return file and function of the innermost user frame; not the line, which moves with every edit."""
    name, _, rest = location(event).partition(":")
    return f"{name} {rest.partition(' in ')[2]}".strip()


def _add(failure: Failure, event: Event, ranks: set[int], hosts: dict[str, None]) -> None:
    failure.count += event.count
    if len(failure.events) < _KEPT_EVENTS:
        failure.events.append(event)
    if event.rank is None:
        failure.unattributed += event.count
    else:
        ranks.add(event.rank)
    if event.line.host:
        hosts[event.line.host] = None
    time = event.line.time
    if time is not None and (failure.first_time is None or time < failure.first_time):
        failure.first_time = time


def location(event: Event) -> str:
    """Return the innermost frame of the user's own code, ``file.py:212 in train_step``; else the innermost frame.

    >>> from ddpclassify.types import Event, Frame, Line
    >>> frames = (Frame("/home/a/train.py", 212, "step", True), Frame("/opt/site-packages/torch/x.py", 3, "f", False))
    >>> location(Event("traceback", "", Line(0, 1, "", ""), "", frames=frames))
    'train.py:212 in step'
    """
    frame = next((f for f in reversed(event.frames) if f.user), event.frames[-1] if event.frames else None)
    if frame is None:
        return ""
    name = frame.path.replace("\\", "/").rpartition("/")[2]
    return f"{name}:{frame.line}" + (f" in {frame.function}" if frame.function else "")
