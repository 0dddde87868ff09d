"""Everything a job prints apart from its failure."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ..framing.base import Clock, Death
from ..script import AGENT, Job, Say
from ..stock.tables import CAUGHT, HARMLESS, LOOPS, PHRASES, Loop
from ..stock.words import Fill
from .loops import running
from .startup import early_says


def healthy_says(
    rng: random.Random, job: Job, clock: Clock, fill: Fill, start: float, end: float, *, in_group: bool = True,
    loop: Loop | None = None, budget: int | None = None, rich: bool = False,
) -> list[Say]:  # fmt: skip
    """Output of a job that is well until `end` and trains from `start` on.

    Parameters
    ----------
    loop
        Style of the training loop, drawn when None.
    budget
        About how many lines the loop prints.
    rich
        More alarming but harmless lines than usual (healthy logs should not be recognisable by their silence).
    """
    trains = start < end
    loop = loop or rng.choice([style for style in LOOPS if suits(style, job)])
    says = early_says(rng, job, fill, end, in_group)
    if trains:
        budget = budget or int(min(max(rng.lognormvariate(4.1, 1.0), 4), 1400))
        readers: dict[str, Callable[[float], str]] = {
            "time": clock.millis,
            "dot": lambda t: clock.millis(t, "."),
            "slashed": lambda t: clock.text(t, "%m/%d %H:%M:%S"),
        }
        says += running(rng, job, dict(readers), loop, start, end, budget)
    says += harmless_says(
        rng, job, fill, "start", 3.0, min(start, end), rng.choice((0, 1, 1, 2, 3, 5)) + 2 * rich, in_group
    )
    if trains:
        says += harmless_says(rng, job, fill, "middle", start, end, rng.choice((0, 0, 1, 1, 2, 4)) + 2 * rich, True)
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2)) + rich):
            # Training must visibly go on after a caught exception.
            says.append(caught_say(rng, job, fill, start + (end - start) * rng.uniform(0.1, 0.75)))
    return says


def suits(loop: Loop, job: Job) -> bool:
    """Styles that belong to one launcher do not turn up under another."""
    owners = {"lightning": "lightning", "ray": "ray", "composer": "composer", "deepspeed": "deepspeed"}
    owner = owners.get(loop.name.split("-")[0])
    return owner is None or owner == job.launcher


def harmless_says(
    rng: random.Random, job: Job, fill: Fill, when: str, start: float, end: float, count: int, in_group: bool
) -> list[Say]:
    """A few alarming lines that mean nothing."""
    rows = [row for row in HARMLESS if row.when == when and row.fits(job)]
    says: list[Say] = []
    for row in rng.choices(rows, weights=[row.weight for row in rows], k=min(count, len(rows))) if end > start else ():
        t = rng.uniform(start, end)
        ranks = {"zero": [0], "one": [rng.randrange(job.world_size)], "agent": [AGENT]}.get(
            row.who, list(range(min(job.world_size, 16)))
        )
        if row.kind == "c10" and row.backend == "nccl" and not in_group:
            continue
        for rank in ranks:
            text = fill(row.text, max(rank, 0))
            says.append(
                Say(
                    rank, t + rng.uniform(0, 0.3), text, row.kind, level=row.level, origin=row.origin, stream=row.stream
                )
            )
    return says


def caught_say(rng: random.Random, job: Job, fill: Fill, t: float) -> Say:
    """An exception that is logged and survived."""
    message, body = rng.choice(CAUGHT)
    rank = rng.randrange(job.world_size)
    text = fill(f"{message}\nTraceback (most recent call last):\n  {body}", rank)
    return Say(rank, t, text, "log", level="W")


def finish_says(rng: random.Random, job: Job, fill: Fill, t: float) -> list[Say]:
    """Last words of a job that ends well."""
    says = [Say(0, t + 0.1 * k, fill(text), rng.choice(("raw", "log")), level="I", stream="stdout")
            for k, text in enumerate(rng.sample(PHRASES["finished"], rng.choice((0, 1, 1, 2, 3))))]  # fmt: skip
    return says + harmless_says(rng, job, fill, "end", t + 0.5, t + 2, rng.choice((0, 1, 1, 2, 3)), True)


def aftermath_says(rng: random.Random, job: Job, fill: Fill, deaths: Sequence[Death]) -> list[Say]:
    """What exit hooks and the surrounding shell say after a failure."""
    says: list[Say] = []
    raised = [death for death in deaths if death.code == 1]
    if raised and rng.random() < 0.2:
        death = rng.choice(raised)
        says.append(Say(death.rank, death.t - 0.001, fill(rng.choice(PHRASES["aftermath"]), death.rank)))
    if raised and job.backend == "nccl" and job.torch >= (2, 4) and rng.random() < 0.3:
        rows = [row for row in HARMLESS if "destroy" in row.text and row.fits(job)]
        for row, death in ((rng.choice(rows), death) for death in raised if rows):
            says.append(Say(death.rank, death.t - 0.0005, row.text, row.kind, level="W", origin=row.origin))
    if rng.random() < 0.2:
        last = max((death.t for death in deaths), default=0.0) + 40
        says.append(Say(AGENT, last, fill(rng.choice(PHRASES["epilogue"]))))
    return says
