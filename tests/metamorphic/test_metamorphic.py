"""A log that tells the same in other words gets the same diagnosis: 600 variants of executed and rendered logs.

The models are statistical: of each kind of change the table says which share of the variants must keep category, scope
and culprits. `python tests/metamorphic/test_metamorphic.py` prints the shares and the exceptions.
"""

from __future__ import annotations

import random
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ddpclassify import load_model
from ddpclassify.split import split
from ddpclassify.types import Diagnosis, Folded

sys.path.insert(0, str(Path(__file__).parent))
from changes import KINDS, renumber, renumbering

ROOT = Path(__file__).parents[2]
OF_EACH = 60  # variants of each kind
READ = {"executed": 320, "rendered": 320}  # logs looked through for them
MOST = 60_000  # characters; longer logs only take longer
# Kind → least share of variants whose diagnosis stays: one exception of 60, or three where who is who is written anew.
SHARES = dict.fromkeys(KINDS, 0.98) | dict.fromkeys(
    ("ranks renumbered", "split into files", "hosts", "prefix form", "healthy noise"), 0.95
)
Verdict = tuple[str, str, tuple[int, ...]]


@cache
def logs() -> tuple[tuple[str, str], ...]:
    """Logs of our own corpora and the kept cases, as (name, text)."""
    found = [(path.stem, path.read_text("utf-8")) for path in sorted((ROOT / "tests" / "cases").glob("*.log"))]
    for corpus, count in READ.items():
        with tarfile.open(ROOT / "data" / f"{corpus}.tar.xz", "r|xz") as packed:
            for member in packed:
                if count and member.name.endswith(".log") and member.size < MOST:
                    data = packed.extractfile(member)
                    assert data is not None
                    found.append((f"{corpus}/{Path(member.name).stem}", data.read().decode("utf-8", "replace")))
                    count -= 1
                if not count:
                    break
    random.Random(1).shuffle(found)
    return tuple(found)


@cache
def told(text: str) -> tuple[Folded, Diagnosis]:
    return load_model().explain(text.split("\n"))


def verdict(diagnosis: Diagnosis) -> Verdict:
    return diagnosis.category, diagnosis.scope, tuple(diagnosis.culprit_ranks)


def changed(kind: str) -> Iterator[tuple[str, Verdict, Verdict]]:
    """Yield (log, wanted verdict, verdict) of every variant of a kind."""
    rng, done = random.Random(kind), 0
    for name, text in logs():
        folded, diagnosis = told(text)
        variant = KINDS[kind](text, folded, rng)
        if variant is not None:
            yield name, verdict(diagnosis), verdict(told(variant)[1])
            done += 1
        if done >= OF_EACH:
            return


def renumbered() -> Iterator[tuple[str, Verdict, Verdict]]:
    rng, done = random.Random(2), 0
    for name, text in logs():
        folded, diagnosis = told(text)
        ranks = set(folded.events.log.facts.ranks_seen)
        lists = "task " in text or "tasks " in text  # Slurm's lists of tasks are not renumbered here
        if len(ranks) < 3 or not set(diagnosis.culprit_ranks) - {0} or len(folded.events.log.facts.hosts) > 1 or lists:
            continue
        numbers = renumbering(ranks, rng)
        category, scope, culprits = verdict(diagnosis)
        wanted = category, scope, tuple(sorted(numbers.get(rank, rank) for rank in culprits))
        yield name, wanted, verdict(told(renumber(text, numbers))[1])
        done += 1
        if done >= OF_EACH:
            return


def split_into_files() -> Iterator[tuple[str, Verdict, Verdict]]:
    done = 0
    for name, text in logs():
        folded, diagnosis = told(text)
        if len(folded.events.log.facts.ranks_seen) < 2 or len(folded.events.log.facts.hosts) > 1:
            continue
        with TemporaryDirectory() as folder:
            log, parts = Path(folder) / "job.log", Path(folder) / "parts"
            log.write_text(text)
            if len(split(str(log), parts).parts) < 3:
                continue
            yield name, verdict(diagnosis), verdict(load_model().diagnose(parts))
        done += 1
        if done >= OF_EACH:
            return


def variants(kind: str) -> list[tuple[str, Verdict, Verdict]]:
    special = {"ranks renumbered": renumbered, "split into files": split_into_files}
    return list(special[kind]() if kind in special else changed(kind))


@pytest.mark.parametrize("kind", SHARES)
def test_the_diagnosis_stays(kind: str) -> None:
    found = variants(kind)
    different = [(name, wanted, got) for name, wanted, got in found if wanted != got]
    assert len(found) >= OF_EACH
    assert len(different) <= (1 - SHARES[kind]) * len(found), different


if __name__ == "__main__":
    for kind in sys.argv[1:] or SHARES:
        found = variants(kind)
        different = [v for v in found if v[1] != v[2]]
        print(f"| {kind} | {len(found)} | {1 - len(different) / max(1, len(found)):.1%} |", flush=True)
        for name, wanted, got in different:
            print(f"  {name}: {wanted} → {got}", file=sys.stderr)
