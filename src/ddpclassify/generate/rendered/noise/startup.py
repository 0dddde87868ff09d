"""What jobs print before they train: options, models, data sets, NCCL's own dump, nvidia-smi."""

from __future__ import annotations

import random

from ..script import AGENT, Job, Say
from ..stock.tables import PHRASES
from ..stock.words import Fill

NCCL_RETRY = "NCCL INFO Call to connect returned Connection refused, retrying"
NCCL_DESTROY = (
    "NCCL INFO comm 0x{hex} rank {rank} nranks {world_size} cudaDev {gpu} busId {int:10-99}000 - {choice:Abort|Destroy}"
    " COMPLETE"
)


def early_says(rng: random.Random, job: Job, fill: Fill, until: float, in_group: bool) -> list[Say]:
    """Start-up lines of the shell and the script before `until`."""
    says = [Say(AGENT, 0.1 + 0.05 * k, fill(text), stream="stdout")
            for k, text in enumerate(rng.sample(PHRASES["shell"], rng.choice((0, 0, 1, 1, 2, 3))))]  # fmt: skip
    for row in rng.sample(PHRASES["early"], rng.choice((0, 1, 2, 3, 4, 6, 9))):
        who, text = row["who"], row["text"]
        t = rng.uniform(3, 25)
        for rank in range(min(job.world_size, 16) if who == "all" else 1):
            says.append(
                Say(rank, t + rng.uniform(0, 0.4), fill(text, rank), stream=rng.choice(("stdout", "stdout", "stderr")))
            )
    if job.backend == "nccl" and in_group and rng.random() < 0.2:
        says += nccl_dump(rng, job, fill, rng.uniform(10, 25))
    return [say for say in says if say.t < until]


def nccl_dump(rng: random.Random, job: Job, fill: Fill, t: float) -> list[Say]:
    """NCCL_DEBUG=INFO while the communicator forms."""
    from ..framing.nccl import nccl_version

    nic = rng.choice(("eth0", "ens5", "bond0", "enp0s31f6", "ib0"))
    says = [
        Say(
            0,
            t - 0.1,
            f"NCCL version {nccl_version(job.torch)}+cuda{'11.8' if job.torch < (2, 4) else '12.4'}",
            stream="stdout",
        )
    ]
    for rank in range(min(job.world_size, 8)):
        for k, text in enumerate(PHRASES["nccl"]):
            if rng.random() < 0.85 or "rank {rank}" in text:
                line = fill(text.replace("{nic}", nic), rank)
                maps = (rank,) if "nranks" in text else ()
                says.append(Say(rank, t + 0.02 * k + rng.uniform(0, 0.3), line, "nccl", stream="stdout", maps=maps))
        if rng.random() < 0.1:
            says.append(Say(rank, t + 0.1, NCCL_RETRY, "nccl", stream="stdout"))
    return says
