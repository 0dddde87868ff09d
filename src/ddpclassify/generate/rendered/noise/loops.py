"""What training loops print while all is well: one format a style, filled step by step."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from ..script import Job, Say
from ..stock.tables import Loop


def running(
    rng: random.Random, job: Job, clock_text: dict[str, object], loop: Loop, start: float, end: float, budget: int
) -> Iterator[Say]:
    """Healthy output from `start` to `end`, about `budget` lines.

    Parameters
    ----------
    clock_text
        Functions of t that give the wall clock in the forms loops use (`time`, `dot`, `slashed`).
    """
    ranks = {"zero": [0], "last": [job.world_size - 1], "all": list(range(min(job.world_size, 16)))}[loop.who]
    lines = max(loop.step.count("\n") + 1, 1)
    prints = max(1, budget // (len(ranks) * lines))
    every = rng.choice((1, 1, 5, 10, 10, 20, 50, 100))
    period = max((end - start) / (prints + 1), 0.01)
    per_epoch = max(2, rng.choice((prints + 5, prints // 2, prints // 4, 12, 40)))
    n, base, floor = per_epoch * every, rng.uniform(0.7, 11), rng.uniform(0.01, 0.6)
    facts: dict[str, object] = {
        "n": n,
        "epochs": rng.choice((3, 10, 12, 50, 90, 100, 300)),
        "run": rng.randint(0, 90),
        "world": job.world_size,
        "batch": rng.choice((4, 8, 16, 32, 64, 256)),
        "scale": rng.choice((1, 1024, 32768, 65536)),
        "size": rng.choice((320, 640)),
    }
    step_time = period / every
    lr = rng.choice((0.1, 0.01, 1e-3, 3e-4, 1e-4, 5e-5, 2e-5))
    memory = rng.uniform(3, 70)
    first_epoch = rng.choice((0, 0, 1, 1, rng.randint(2, 60)))
    total_steps = max(n * 3, prints * every + rng.randint(10, 2000))
    t = start
    for number in range(prints):
        t += period * rng.uniform(0.9, 1.05)
        if t >= end:
            return
        epoch, within = divmod(number, per_epoch)
        done = number / max(prints, 1)
        loss = floor + base * math.exp(-3 * done) * rng.uniform(0.93, 1.07)
        i = within * every
        facts |= {
            "epoch": first_epoch + epoch,
            "i": i,
            "i2": i + every,
            "gi": number * every,
            "loss": loss,
            "avg": loss * 1.04,
            "part": loss * 0.6,
            "part2": loss * 0.09,
            "acc": 90 * done + rng.uniform(0, 5),
            "acc5": min(99.5, 95 * done + 6),
            "metric": 0.1 + 0.7 * done,
            "metric2": 0.05 + 0.5 * done,
            "bt": step_time,
            "bt2": step_time * 1.03,
            "dt": step_time * 0.04,
            "ms": step_time * 1000,
            "lr": lr * (1 - 0.9 * done),
            "mem": int(memory * 1024),
            "gib": memory,
            "norm": rng.uniform(0.1, 4),
            "eta": _hms((end - t) * 3),
            "clock": _hms(t - start),
            "total": _hms(n * step_time),
            "rate": 64 / step_time,
            "speed": 1 / step_time,
            "percent": min(100, 100 * i // n),
            "bar": _bar(i / n),
            "arrow": _arrow(i / n),
            "samples": number * every * 64,
            "tok": int(8192 / step_time) % 900_000,
            "mfu": 41.3 + rng.uniform(-1, 1),
            "fepoch": first_epoch + epoch + within / per_epoch,
            "ppl": math.exp(min(loss, 20)),
            "psnr": 12 + 18 * done,
            "hits": int(9000 * done) + 500,
            "wall": int(t),
            "total_steps": total_steps,
            "time": _call(clock_text, "time", t),
            "dot": _call(clock_text, "dot", t),
            "slashed": _call(clock_text, "slashed", t),
        }
        opening = loop.start if number == 0 else ""
        closing = [loop.epoch, loop.evaluation] if within == per_epoch - 1 else []
        for rank in ranks:
            jitter = rng.uniform(0, 0.02) if len(ranks) > 1 else 0.0
            own = facts | {
                "rank": rank,
                "local": job.local(rank),
                "pid": job.pids[rank],
                "loss": loss * (1 + 0.01 * (rank % 5)) if rank else loss,
            }
            kind = loop.kind
            if opening:
                yield Say(rank, t + jitter - 0.001, opening.format(**own), stream=loop.stream)
            yield Say(rank, t + jitter, loop.step.format(**own), kind, level="I", stream=loop.stream)
            for offset, text in enumerate(closing):
                if text:
                    after = "raw" if kind == "bar" else kind
                    yield Say(
                        rank,
                        t + jitter + 0.002 * (offset + 1),
                        text.format(**own),
                        after,
                        level="I",
                        stream=loop.stream,
                    )


def _call(clock_text: dict[str, object], form: str, t: float) -> str:
    reader = clock_text[form]
    return str(reader(t)) if callable(reader) else ""


def _hms(seconds: float) -> str:
    whole = max(int(seconds), 0)
    hours, rest = divmod(whole, 3600)
    if not hours:
        return f"{rest // 60:02d}:{rest % 60:02d}"
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"


def _bar(fraction: float) -> str:
    cells = int(fraction * 80)
    return "█" * (cells // 8) + ("▏▎▍▌▋▊▉"[cells % 8 - 1] if cells % 8 else "") + " " * (10 - -(-cells // 8))


def _arrow(fraction: float) -> str:
    done = int(fraction * 29)
    return "=" * done + ">" + "." * (29 - done)
