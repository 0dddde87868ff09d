"""How much `ddpclassify.instrument` helps: the same failing jobs with and without it, and what their logs then tell.

Usage: ``python benchmarks/instrument.py``; needs torch. Each fault strikes one rank of three, really run here (gloo, on
the CPU) as plain background processes that share one log, the way a shell script starts them.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from ddpclassify import load_model
from ddpclassify.types import Diagnosis

RANKS = 3
FAULTS = {
    "name": "print(undefined_name)",
    "key": "batch = {'x': 1}['label']",
    "file": "open('/data/shard-00017.tar')",
    "value": "raise ValueError('loss is nan at step 2, stopping training')",
    "memory": "raise MemoryError('Unable to allocate 48.0 GiB for an array with shape (80000, 80000)')",
    "exit": "raise SystemExit('configuration not found')",
}
SCRIPT = """
import sys
{setup}
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(4):
    dist.all_reduce(torch.ones(1))
    print("step", step, "loss", 0.5, flush=True)
    if step == 2 and dist.get_rank() == {culprit}:
        {fault}
dist.barrier()
"""
SETUP = "from ddpclassify import instrument\ninstrument.setup()"


def log_of(fault: str, culprit: int, instrumented: bool) -> str:
    """Run a job whose rank `culprit` fails, and return what all ranks wrote, mixed as it came."""
    code = SCRIPT.format(setup=SETUP if instrumented else "", culprit=culprit, fault=FAULTS[fault])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        script, log = Path(folder) / "train.py", Path(folder) / "job.log"
        script.write_text(code)
        with log.open("wb") as out:
            jobs = [
                subprocess.Popen(
                    [sys.executable, "-u", str(script)],
                    stdout=out,
                    stderr=out,
                    env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS),
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"},
                )
                for rank in range(RANKS)
            ]  # fmt: skip
            for job in jobs:
                job.wait(timeout=120)
        return log.read_text(errors="replace")


def right(answer: Diagnosis, culprit: int) -> tuple[bool, bool]:
    """Whether the culprit is told, and its host."""
    host = socket.gethostname().partition(".")[0]
    return answer.culprit_ranks == [culprit], answer.culprit_host == host


def measure(faults: list[str]) -> dict[bool, list[tuple[bool, bool]]]:
    """Return what was right of each fault's log, without and with `instrument`."""
    pick, model = random.Random(7), load_model()
    results: dict[bool, list[tuple[bool, bool]]] = {False: [], True: []}
    for fault in faults:
        culprit = pick.randrange(RANKS)
        for instrumented in (False, True):
            lines = log_of(fault, culprit, instrumented).splitlines()
            results[instrumented].append(right(model.diagnose(lines), culprit))
    return results


def main() -> None:
    """Print the table."""
    results = measure(list(FAULTS))
    print(f"{'':14}{'culprit':>9}{'host':>7}   of {len(FAULTS)} faults")
    for instrumented, rows in results.items():
        culprits, hosts = (sum(row[i] for row in rows) for i in range(2))
        print(f"{'instrumented' if instrumented else 'plain':14}{culprits:9}{hosts:7}")


if __name__ == "__main__":
    main()
