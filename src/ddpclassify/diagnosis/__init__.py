"""Put the models' answers together into one diagnosis."""

from __future__ import annotations

from typing import Any

from ddpclassify import taxonomy
from ddpclassify.diagnosis.missing import is_said, missing_evidence
from ddpclassify.features import Described
from ddpclassify.model import Answers
from ddpclassify.types import Diagnosis, Event, Failure, InputError

__all__ = ["decide"]

_EVIDENCE = 5
_NEXT = 0.6  # share of the best failure's score from which the next one is evidence as well
_FAILURES = 20
_SHOWN_TEXT = 500
UNKNOWN = "unknown"


def decide(described: Described, answers: Answers, card: dict[str, Any]) -> Diagnosis:
    """Return the diagnosis of one log.

    Parameters
    ----------
    described, answers : the log, and what the models say of it
    card : the model's card; its ``threshold`` is the least probability of a named category
    """
    log = described.folded.events.log
    candidates = sorted(answers.category.items(), key=lambda kv: -kv[1])
    best, confidence = candidates[0]
    known = confidence >= float(card.get("threshold", 0.0))
    category = best if known else UNKNOWN
    reason = answers.reason if known else None
    # A log without a word is like none that the models learned from, and blames nobody.
    scope, ranks, certainty = _culprit(answers, best) if is_said(log) else (UNKNOWN, [], 0.0)
    evidence = [] if best == "no_failure" and known else _evidence(described, answers, ranks)
    origin, retry, advice = _advice(category, reason, card.get("categories"))
    progress = {
        str(rank): {"step": step, "line": line}
        for rank, (step, line) in described.folded.events.progress.items()
        if rank is not None
    }
    if None in described.folded.events.progress:
        step, line = described.folded.events.progress[None]
        progress["any"] = {"step": step, "line": line}
    return Diagnosis(
        source=log.source,
        lines=log.n_lines,
        bytes=log.n_bytes,
        category=category,
        confidence=round(confidence, 4),
        candidates=[{"category": c, "probability": round(p, 4)} for c, p in candidates[:5]],
        reason=reason,
        origin=origin,
        retry=retry,
        scope=scope,
        culprit_ranks=ranks,
        culprit_confidence=round(certainty, 4),
        culprit_host=_host(described, answers, ranks),
        world_size=log.facts.world_size or described.view.world or None,
        evidence=evidence,
        failures=_failures(described, answers),
        advice=advice,
        missing=missing_evidence(described, scope, category),
        progress=progress,
        model={
            "name": card.get("name", "default"),
            "version": card.get("version", ""),
            "sha256": card.get("sha256", ""),
        },
    )


def _culprit(answers: Answers, category: str) -> tuple[str, list[int], float]:
    """The likeliest scope; with ``ranks`` those ranks that are likelier culprits than not, or else the likeliest."""
    scopes = possible_scopes(answers, category)
    scope = max(scopes, key=lambda s: scopes[s], default="unknown")
    if scope != "ranks":
        return scope, [], scopes.get(scope, 0.0)
    top = max(answers.ranks.values())
    ranks = (
        sorted(r for r, p in answers.ranks.items() if p >= 0.5) or [r for r, p in answers.ranks.items() if p == top][:1]
    )
    return scope, ranks, scopes[scope] * min(max(top, 0.5), 1.0)


def possible_scopes(answers: Answers, category: str) -> dict[str, float]:
    """Return the scopes that a failure of this category can have, with their probabilities."""
    out = {"none"} if category != "no_failure" else set()
    if not answers.ranks:
        out.add("ranks")
    return {scope: p for scope, p in answers.scope.items() if scope not in out}


def _evidence(described: Described, answers: Answers, ranks: list[int]) -> list[dict[str, Any]]:
    """The lines of the likeliest causes, best first: first lines of the best failure, then of the next likely ones."""
    files = described.folded.events.log.files
    order = answers.order
    out: list[dict[str, Any]] = []
    seen: set[tuple[int, int]] = set()
    wanted = set(ranks)
    told = bool(order and wanted & set(described.folded.failures[order[0]].ranks))
    for place, index in enumerate(order[:4]):
        failure = described.folded.failures[index]
        if place and answers.cause[index] < _NEXT * answers.cause[order[0]]:
            break
        if place and told and failure.ranks and not wanted & set(failure.ranks):
            continue  # others' reports, when the culprits' own is at hand
        mine = [e for e in failure.events if e.rank in ranks]
        for event in (mine + [e for e in failure.events if e not in mine])[: 3 if place == 0 else 1]:
            key = (event.line.file, event.line.number)
            if key in seen or len(out) >= _EVIDENCE:
                continue
            seen.add(key)
            out.append(
                {
                    "line": event.line.number,
                    "file": files[event.line.file].name if len(files) > 1 else None,
                    "rank": event.rank,
                    "text": statement_of(event)[:_SHOWN_TEXT],
                }
            )
    return out


def statement_of(event: Event) -> str:
    """Return what an event states, as it stood in the log without prefixes."""
    if event.exception:
        return f"{event.exception}: {event.text}" if event.text else event.exception
    return event.text or event.line.text.strip()


def _failures(described: Described, answers: Answers) -> list[dict[str, Any]]:
    order = answers.order
    shown = sorted(order[:_FAILURES])
    out = []
    for index in shown:
        cause = index == order[0] or answers.cause[index] >= 0.5
        role = "cause" if cause and answers.cause[index] > 0.1 else "consequence"
        out.append(_failure(described.folded.failures[index], role, answers.cause[index]))
    return out + [_failure(each, "consequence", 0.0) for each in described.folded.apart[:_FAILURES]]


def _failure(failure: Failure, role: str, score: float) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "exception": failure.exception or None,
        "message": failure.message[:_SHOWN_TEXT],
        "location": failure.location or None,
        "ranks": list(failure.ranks),
        "count": failure.count,
        "first_line": failure.first.line.number,
        "first_time": _clock(failure.first_time),
        "role": role,
        "signature": failure.signature,
        "recovered": failure.recovered,
        "seen_in_healthy": failure.seen_in_healthy,
        "score": round(score, 4),
    }


def _clock(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    from datetime import datetime, timedelta

    day, rest = divmod(seconds, 86400)
    stamp = datetime.fromordinal(int(day)) + timedelta(seconds=rest)
    return stamp.isoformat(timespec="milliseconds")


def _host(described: Described, answers: Answers, ranks: list[int]) -> str | None:
    """The host of all culprits, or of the cause's line."""
    hosts = described.folded.events.log.facts.hosts
    on = {host for host, members in hosts.items() if host and ranks and set(ranks) <= members}
    if len(on) == 1:
        return on.pop()
    if answers.cause and described.folded.failures:
        return described.folded.failures[answers.order[0]].first.line.host
    return None


def _advice(category: str, reason: str | None, own: object) -> tuple[str, str, dict[str, Any]]:
    """What to do, in the words of the house where the model's card has some for this category."""
    try:
        if isinstance(own, dict) and category in own:
            entry = taxonomy.from_tables({category: own[category]}, "card.json: categories")[category]
        else:
            entry = taxonomy.load(category)
    except KeyError:  # a category of somebody's own corpus, without advice
        return "unknown", "maybe", {"first_check": "", "steps": []}
    except ValueError as error:
        raise InputError(f"damaged model: {error}") from error
    known = reason if any(r.id == reason for r in entry.reasons) else None
    advice = entry.advice_for(known)
    return entry.origin, entry.retry_for(known), {"first_check": advice.first_check, "steps": list(advice.steps)}
