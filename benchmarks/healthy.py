"""What a known good run brings: failing logs with and without frightening events that the job's good runs show as well.

Usage: ``python benchmarks/healthy.py [--builtin N] [--logs N]``. The failing logs are executed ones whose templates the
model was not trained on; the good run of each is an executed one of the same workload. The frightening events are
tracebacks of other jobs' causes, as a job that survives them would log them: mixed into the failing log before its own
failure, and into the good run. Ways of counting them less stand beside each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import NamedTuple
from unittest.mock import patch
from zlib import crc32

from ddpclassify.corpus import Labelled
from ddpclassify.diagnosis import decide
from ddpclassify.evaluation.metrics import estimate, mark
from ddpclassify.evaluation.prediction import Prediction, from_dict
from ddpclassify.events import extract
from ddpclassify.features import Described, describe
from ddpclassify.fold import fold
from ddpclassify.fold.likeness import likeness
from ddpclassify.model import answer, healthy
from ddpclassify.model.answers import Parts
from ddpclassify.model.healthy import GoodRun, set_apart
from ddpclassify.ranks import attribute
from ddpclassify.read import read
from ddpclassify.train import Sample, Training, fit, load_samples
from ddpclassify.train.builtin import builtin_corpora
from ddpclassify.train.cache import default_cache

METRICS = ("category_acc", "culprit_exact", "evidence_hit", "confident_wrong")
Lines = list[str]
Way = Callable[[Described, Parts, Sequence[GoodRun]], Described]


class Pair(NamedTuple):
    """A log that is asked about, with its label, and a good run of the same job."""

    label: Labelled
    log: Lines
    good: Lines


def kept_out(template: str) -> bool:
    """Whether a template is asked about: one in four."""
    return crc32(template.encode()) % 4 == 0


def described(lines: Lines) -> Described:
    """Describe a log for the models."""
    return describe(fold(extract(attribute(read(lines)))))


def causes(sample: Sample) -> Lines:
    """Return the traceback of a log's cause without prefixes; nothing where it has none."""
    folded = sample.described.folded
    for failure, wanted in zip(folded.failures, sample.is_cause, strict=True):
        event = failure.first
        if wanted and event.first is not None and event.kind == "traceback":
            low, high = event.first.number, event.line.number
            mine = [x for x in folded.events.log.lines if low <= x.number <= high and x.source == event.line.source]
            return [x.text for x in mine] if len(mine) < 60 else []
    return []


def mixed(
    lines: Lines, blocks: Sequence[Lines], places: Sequence[int], rng: Random, world: int
) -> tuple[Lines, list[int]]:
    """Put blocks before the lines of these indices; return the log, and how many lines come before each old line."""
    added: dict[int, Lines] = {}
    for block, at in zip(blocks, places, strict=True):
        tag = f"[rank{rng.randrange(world)}]: "
        added.setdefault(at, []).extend([f"{tag}WARNING: failed, going on", *(tag + line for line in block)])
    out: Lines = []
    moved = []
    for index, line in enumerate(lines):
        out += added.get(index, [])
        moved.append(len(out) - index)
        out.append(line)
    return out, moved


def text(sample: Sample) -> Lines:
    """Return a log's lines."""
    return sample.labelled.path.read_text("utf-8", "replace").split("\n")


def start(sample: Sample) -> int:
    """Return the index of the first line of what went wrong."""
    failures = sample.described.folded.failures
    firsts = [f.first.first or f.first.line for f, wanted in zip(failures, sample.is_cause, strict=True) if wanted]
    return min((line.number - 1 for line in firsts), default=0)


def situations(asked: Sequence[Sample], good: Sequence[Sample], donors: Sequence[Sample]) -> dict[str, list[Pair]]:
    """Return the pairs of each situation."""
    names = ("as it is", "frightened", "survived", "both", "failed", "well")
    out: dict[str, list[Pair]] = {name: [] for name in names}
    rng = Random("healthy")
    alike: dict[str, list[Sample]] = {}
    for each in asked:
        alike.setdefault(each.group, []).append(each)
    for sample in asked:
        world = sample.labelled.row["world_size"]
        same = [g for g in good if g.labelled.row["workload"] == sample.labelled.row["workload"]]
        run, other = rng.choice(same or list(good)), rng.choice(good)
        others = [d for d in donors if d.label["category"] != sample.label["category"]]
        blocks = [causes(d) for d in rng.sample(others, rng.randint(1, 3))]
        until = start(sample)
        # Half of them right before the failure: nothing tells that the job survived them.
        places = [rng.choice((rng.randint(0, until), until)) for _ in blocks]
        lines, calm = text(sample), text(run)
        bad, moved = mixed(lines, blocks, places, rng, world)
        label = replace(
            sample.labelled,
            evidence_lines=tuple(str(int(n) + moved[int(n) - 1]) for n in sample.labelled.evidence_lines),
        )
        within = [rng.randint(0, 4 * len(calm) // 5) for _ in range(5)]
        frightened, _ = mixed(calm, blocks, within[: len(blocks)], rng, world)
        out["as it is"].append(Pair(sample.labelled, lines, calm))
        out["frightened"].append(Pair(label, bad, frightened))
        if own := causes(sample):
            out["survived"].append(Pair(sample.labelled, lines, mixed(calm, [own], within[:1], rng, world)[0]))
            everything = mixed(calm, [own, *blocks], within[: 1 + len(blocks)], rng, world)[0]
            out["both"].append(Pair(label, bad, everything))
        if twins := [s for s in alike[sample.group] if s is not sample]:
            out["failed"].append(Pair(sample.labelled, lines, text(rng.choice(twins))))
        ended, size = text(other), len(text(other))
        late = mixed(ended, blocks, [rng.randint(size // 2, size - 1) for _ in blocks], rng, world)[0]
        out["well"].append(Pair(other.labelled, late, frightened))
    return out


def mark_recovered(found: Described, parts: Parts, runs: Sequence[GoodRun]) -> Described:
    """Mark what good runs show as something that the job survived."""
    seen = frozenset().union(*(run.seen for run in runs))
    marked = (replace(f, recovered=f.recovered or likeness(f) in seen) for f in found.folded.failures)
    return describe(found.folded._replace(failures=tuple(marked)))


def remove(found: Described, parts: Parts, runs: Sequence[GoodRun]) -> Described:
    """Leave out all that good runs show."""
    seen = frozenset().union(*(run.seen for run in runs))
    return describe(found.folded._replace(failures=tuple(f for f in found.folded.failures if likeness(f) not in seen)))


def apart(
    found: Described, parts: Parts, runs: Sequence[GoodRun], clear: float, well: float = healthy.WELL
) -> Described:
    """Set apart as the program does, with other constants."""
    with patch.object(healthy, "CLEAR", clear), patch.object(healthy, "WELL", well):
        return set_apart(found, parts, runs)


WAYS: dict[str, Way | None] = {
    "no good run": None,
    "as survived": mark_recovered,
    "left out": remove,
    **{f"set apart, {clear}": partial(apart, clear=clear) for clear in (0.5, 0.6, 0.7, 0.8, 0.9)},
    "set apart, 0.7, never well": partial(apart, clear=0.7, well=1.0),
}


def good_run(lines: Lines, training: Training) -> GoodRun:
    """Read a good run as `Model.good_run` does."""
    found = described(lines)
    diagnosis = decide(found, answer(found, training.parts), {"threshold": training.threshold})
    return GoodRun.of(found.folded, diagnosis.category)


def ask(found: Described, run: GoodRun, training: Training, way: Way | None) -> Prediction:
    """Return the answer about one log."""
    if way is not None:
        found = way(found, training.parts, [run])
    diagnosis = decide(found, answer(found, training.parts), {"threshold": training.threshold})
    return from_dict(diagnosis.to_dict())


def main() -> None:
    """Print a table a situation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--builtin", type=int, default=1500, help="built-in logs to train on, of those drawn evenly")
    parser.add_argument("--logs", type=int, default=150, help="failing logs that are asked about")
    options = parser.parse_args()
    everything = load_samples(builtin_corpora(), cache=default_cache())
    builtin = [s for s in everything if not kept_out(s.group)]
    training = fit(Random(0).sample(builtin, min(options.builtin, len(builtin))))
    executed = [s for s in everything if s.corpus == "executed" and s.labelled.path.is_file()]
    good = [s for s in executed if s.label["category"] == "no_failure" and s.label["damage"] == "none"]
    failing = [s for s in executed if s.label["category"] != "no_failure" and s.label["damage"] == "none"]
    held = [s for s in failing if kept_out(s.group)]
    asked = Random(1).sample(held, min(options.logs, len(held)))
    pairs = situations(asked, good, [s for s in failing if causes(s)])
    for name, some in pairs.items():
        print(f"\n{name}: {len(some)} pairs\n| way | {' | '.join(METRICS)} |\n| --- |{' --- |' * len(METRICS)}")
        read_once = [(described(p.log), good_run(p.good, training)) for p in some]
        for way, does in WAYS.items():
            marks = mark([p.label for p in some], [ask(*both, training, does) for both in read_once])
            figures = (estimate(metric, marks, resamples=1).value for metric in METRICS)
            print(f"| {way} | {' | '.join(f'{x:.3f}' for x in figures)} |", flush=True)


if __name__ == "__main__":
    main()
