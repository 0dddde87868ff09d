"""Check every label of a generated corpus against its log."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

from ddpclassify import taxonomy
from ddpclassify.corpus import CATEGORIES, LABELS, Labelled, _labelled, _unpacked
from ddpclassify.corpus.lines import read_lines
from ddpclassify.foreign import from_json
from ddpclassify.types import InputError

__all__ = ["check", "tells_ranks"]

# Every way in which a log names a rank that the launchers and programs of our corpora use.
_RANK = re.compile(
    r"(?i)(?:\brank|\branks|default|worker|process|node|\bpid|task|^\[|,)[\s:=#_\"'\[(-]{0,9}(\d{1,5})\b"
    r"|^ *(\d{1,5})(?:: |\t)"
)
# Installed packages lie below these in a recorded log; any other place is one of the machine that recorded it.
_INSTALLED = re.compile(r"(?<![^\s'\"(<>,:])([^\s'\"(<>,:]*)/lib/python3")
_INVENTED = ("/opt/conda/envs/train", "/opt/conda", "/usr", "/usr/local")
_SCRATCH = re.compile(r"ddpclassify-jobs-|/job-[a-z0-9_]{8}\b")


def check(corpus: str | Path) -> Iterator[str]:
    """Yield one line for each offence: ``labels.jsonl:LINE: LOG: what is wrong``.

    A category that neither the taxonomy nor the corpus' own ``categories.toml`` knows is told at its first log only.

    Raises
    ------
    InputError : no such corpus, one without a label file, or advice on its categories that can't be read
    """
    path = Path(corpus)
    folder = _unpacked(path) if path.is_file() else path
    labels = folder / LABELS
    if not labels.is_file():
        raise InputError(f"{path}: no {LABELS} to check")
    seen, known = set[str](), {*taxonomy.names(), *_own(folder)}
    for number, line in enumerate(labels.read_text("utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            each = _labelled(folder, from_json(line))
        except ValueError as error:
            yield f"{LABELS}:{number}: {error}"
            continue
        if each.log in seen:
            yield f"{LABELS}:{number}: {each.log}: has a label already"
        seen.add(each.log)
        if each.category not in known:
            known.add(each.category)
            yield (
                f"{LABELS}:{number}: {each.log}: category {each.category!r} is not in the taxonomy; "
                f"if it is one of your own, describe it in {CATEGORIES}"
            )
        for offence in _offences(each):
            yield f"{LABELS}:{number}: {each.log}: {offence}"


def _own(folder: Path) -> dict[str, taxonomy.Category]:
    """Return the corpus' own categories."""
    file = folder / CATEGORIES
    try:
        return taxonomy.load_file(file) if file.is_file() else {}
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error


def _offences(each: Labelled) -> Iterator[str]:
    yield from _of_terms(each)
    try:
        lines, places = read_lines(each.path)
    except (InputError, OSError) as error:
        yield str(error)
        return
    yield from _of_evidence(each, lines, places)
    yield from _of_culprits(each, lines)
    if each.row.get("provenance") == "executed":
        yield from _of_names(lines)


def _of_terms(each: Labelled) -> Iterator[str]:
    """What the label says, without a look at the log."""
    reasons = taxonomy.load(each.category).reasons if each.category in taxonomy.names() else ()
    reason = each.row.get("reason")
    if reasons and reason is not None and reason not in {known.id for known in reasons}:
        yield f"reason {reason!r} is not one of {each.category}"
    if each.scope is None:
        if _generated(each):
            yield "scope is missing"
    elif (each.scope == "none") != (each.category == "no_failure"):
        yield f"scope {each.scope!r} does not fit {each.category}"
    elif (each.scope == "ranks") != bool(each.culprit_ranks):
        yield f"scope {each.scope!r} with culprits {list(each.culprit_ranks or ())}"


def _generated(each: Labelled) -> bool:
    """Whether the label was made by `ddpclassify generate`, which leaves out nothing; people may."""
    return "provenance" in each.row


def _of_evidence(each: Labelled, lines: list[str], places: list[tuple[str | None, int]]) -> Iterator[str]:
    text = {
        f"{file}:{number}" if file else str(number): line for (file, number), line in zip(places, lines, strict=True)
    }
    if not each.evidence_lines and each.scope != "none" and _generated(each):
        yield "no evidence"
    for place in each.evidence_lines:
        if place not in text:
            yield f"evidence line {place} does not exist; the log has {len(lines)}"
        elif not text[place].strip():
            yield f"evidence line {place} is blank"


def _of_culprits(each: Labelled, lines: list[str]) -> Iterator[str]:
    world = each.row.get("world_size")
    culprits = set(each.culprit_ranks or ())
    for rank in sorted(culprits):
        if isinstance(world, int) and rank >= world:
            yield f"culprit {rank} in a job of {world} ranks"
    if not culprits:
        return
    if not tells_ranks(culprits, lines, world if isinstance(world, int) else 1 << 16):
        yield f"culprits {sorted(culprits)} are not in the log, nor is any other rank"


def tells_ranks(culprits: Set[int], lines: Iterable[str], world: int) -> bool:
    """Whether a log tells who the culprits are: it names one of them, or others, among whom the culprits are silent."""
    told = {int(m[1] or m[2]) for line in lines for m in _RANK.finditer(line)}
    return not culprits.isdisjoint(told) or not told.isdisjoint(range(world))


def _of_names(lines: list[str]) -> Iterator[str]:
    host = socket.gethostname()
    own = re.compile(rf"(?<![\w-]){re.escape(host)}(?![\w-])") if len(host) > 3 and host != "localhost" else None
    prefixes = {prefix for prefix in (sys.prefix, sys.base_prefix) if prefix not in _INVENTED}
    for number, line in enumerate(lines, 1):
        if own and own.search(line):
            yield f"line {number} holds the name of this machine"
        foreign = [m[1] for m in _INSTALLED.finditer(line) if m[1].startswith("/") and m[1] not in _INVENTED]
        if foreign or _SCRATCH.search(line) or any(prefix in line for prefix in prefixes):
            yield f"line {number} holds a path of the machine that ran it: {line.strip()[:80]}"
