"""How much a house's own logs teach: from 0 to 100 of them beside the built-in ones.

Usage: ``python benchmarks/inhouse.py [--builtin N] [--weight W]``. The house has a log format of its own (a head on
every line, and a supervisor's words at the end, that nothing here knows), a category of its own (a fifth of its logs:
``inhouse_faults/``), and faults of the known categories whose templates are kept out of the built-in logs. The figures
are those of other logs of the house.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from unittest.mock import patch
from zlib import crc32

from ddpclassify.corpus import LABELS
from ddpclassify.diagnosis import decide
from ddpclassify.evaluation.metrics import estimate, mark
from ddpclassify.evaluation.prediction import from_dict
from ddpclassify.generate.rendered import render
from ddpclassify.generate.rendered.exceptions import load_rows
from ddpclassify.generate.rendered.framing.base import NOTHING, RANK, Clock, Death, Launcher, agent
from ddpclassify.generate.rendered.render import Template
from ddpclassify.generate.rendered.script import Job, Say, Script
from ddpclassify.model import answer
from ddpclassify.train import Sample, fit, load_samples
from ddpclassify.train.builtin import builtin_corpora
from ddpclassify.train.cache import default_cache

OWN = "feature_store"
COUNTS = (0, 3, 10, 30, 100)
TESTED = 300


class House(Launcher):
    """A launcher that nothing in the package knows."""

    def tag(self, say: Say) -> tuple[str, frozenset[str]]:
        if say.who < 0:
            return "acme/supervisor ▸ ", NOTHING
        return f"acme/w{say.who:03d} {self.clock.text(say.t, '%H%M%S')} ▸ ", frozenset({RANK})

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        first = min(deaths, key=lambda d: d.t, default=None)
        if first is None:
            return []
        text = f"w{first.rank:03d} left us with {first.code}; the other {self.job.world_size - 1} are sent home"
        return [agent(first.t + 0.2, text, names=(first.rank,))]


def house(rng: Random, job: Job, clock: Clock) -> Launcher:
    """Take the place of `make_launcher`."""
    return House(rng, job, clock)


def kept_out(template: str) -> bool:
    """Whether a template is the house's: one in four."""
    return crc32(template.encode()) % 4 == 0


def house_logs(folder: Path, count: int, seed: int) -> list[Sample]:
    """Render logs of the house, one in five of its own category."""
    rows = load_rows(Path(__file__).parent / "inhouse_faults")
    own = [Template(name, *row) for name, row in sorted(rows.items())]
    known: dict[str, list[Template]] = {}
    for name, template in sorted(render.templates().items()):
        if kept_out(name):
            known.setdefault(template.category, []).append(template)
    rng = Random(f"house-{seed}")
    turns = cycle(rng.sample(sorted(known), len(known)))
    folder.mkdir()
    labels: list[str] = []
    with patch.object(render, "make_launcher", house):
        while len(labels) < count:
            template = rng.choice(own if len(labels) % 5 == 2 else known[next(turns)])
            if (rendered := render.render_log(rng, template)) is None:
                continue
            log = f"{len(labels):04d}.log"
            (folder / log).write_text(rendered.text)
            labels.append(json.dumps({"log": log, **rendered.label, "template": None}))
    (folder / LABELS).write_text("\n".join(labels))
    return load_samples([folder])


def main() -> None:
    """Print the curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--builtin", type=int, default=1500, help="built-in logs to train on, of those drawn evenly")
    parser.add_argument("--weight", type=float, default=1.0, help="weight of a log of the house")
    options = parser.parse_args()
    everything = load_samples(builtin_corpora(), cache=default_cache())
    builtin = [s for s in everything if not kept_out(s.group)]
    builtin = Random(0).sample(builtin, min(options.builtin, len(builtin)))
    with tempfile.TemporaryDirectory() as folder:
        taught = house_logs(Path(folder, "taught"), COUNTS[-1], 1)
        asked = house_logs(Path(folder, "asked"), TESTED, 2)
    print(f"{len(builtin)} built-in logs and N of the house, weight {options.weight:g}; {TESTED} others of the house")
    print(f"{'N':>4}{'own category':>14}{'known categories':>18}{'culprit':>9}{'evidence':>10}")
    for count in COUNTS:
        samples = [*builtin, *taught[:count]]
        training = fit(samples, weights=[1.0] * len(builtin) + [options.weight] * count)
        card = {"threshold": training.threshold}
        got = [from_dict(decide(s.described, answer(s.described, training.parts), card).to_dict()) for s in asked]
        marks = mark([s.labelled for s in asked], got)
        own = marks.select([i for i, s in enumerate(asked) if s.labelled.category == OWN])
        known = marks.select([i for i, s in enumerate(asked) if s.labelled.category != OWN])
        figures = [
            estimate(metric, of, resamples=1).value
            for metric, of in (
                ("category_acc", own),
                ("category_acc", known),
                ("culprit_exact", marks),
                ("evidence_hit", marks),
            )
        ]
        print(f"{count:4}" + "".join(f"{x:{w}.3f}" for x, w in zip(figures, (14, 18, 9, 10), strict=True)), flush=True)


if __name__ == "__main__":
    main()
