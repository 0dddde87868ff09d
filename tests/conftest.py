"""What several tests share: small jobs of real processes (gloo, on the CPU) that fail, and a small labelled corpus."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# A shell without job control starts what it puts in the background with SIGINT ignored, and so would be every command
# that a test interrupts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_TRAIN = """
import os, sys
import torch, torch.distributed as dist

def train(rank=os.environ.get("OMPI_COMM_WORLD_RANK"), port=sys.argv[-1]):
    if rank is not None:
        os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo")
    for step in range(3):
        dist.all_reduce(torch.ones(1))
        print(f"[rank{dist.get_rank()}]: step {step} loss 0.5", flush=True)
    if dist.get_rank() == 1:
        print({}["missing"])
    dist.barrier()

if __name__ == "__main__":
    if "--spawn" in sys.argv:
        torch.multiprocessing.spawn(train, sys.argv[-1:], nprocs=2)
    else:
        train()
"""
_SHELL = """
export MASTER_ADDR=127.0.0.1 MASTER_PORT={port} WORLD_SIZE=2
RANK=0 {python} {script} 2> >(sed -u 's/^/[rank0]: /' >&2) & first=$!
RANK=1 {python} {script} 2> >(sed -u 's/^/[rank1]: /' >&2) & second=$!
wait $second; status=$?; wait $first; exit $status
"""
LAUNCHERS = ("torchrun", "spawn", "mpirun", "shell")


@pytest.fixture(params=LAUNCHERS)
def failing_job(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The command of a two-rank job whose rank 1 raises a KeyError after three steps."""
    pytest.importorskip("torch", reason="torch is not installed")
    script = tmp_path / "train.py"
    script.write_text(_TRAIN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    if request.param == "torchrun":
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    if request.param == "spawn":
        return [sys.executable, str(script), "--spawn", port]
    if request.param == "mpirun":
        if shutil.which("mpirun") is None:
            pytest.skip("mpirun is not installed")
        return [
            "mpirun",
            *["--allow-run-as-root", "--oversubscribe", "--tag-output", "-np", "2"],
            sys.executable,
            str(script),
            port,
        ]
    return ["bash", "-c", _SHELL.format(python=sys.executable, script=script, port=port)]


# A house: its logs, one of its categories unknown elsewhere.
CAUSES = {
    "licence_denied": ("RuntimeError: no seat for feature solver-{n}: licence server gave LM-{n}", "ranks"),
    "cuda_oom": ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 GiB", "ranks"),
    "code_error": ("NameError: name 'batch_{n}' is not defined", "all"),
}
HOUSE = """
[category.licence_denied]
origin = "environment"
retry = "maybe"
meaning = "The licence server has no seat left."
first_check = "lmstat -a"
steps = ["Wait for a seat."]
"""


def _log(cause: str, n: int, everyone: bool) -> tuple[str, list[int]]:
    lines = [f"[rank{r}]: step {s} loss 0.{n}" for s in range(3) for r in range(2)]
    at = []
    for rank in (0, 1) if everyone else (1,):
        head = f"[rank{rank}]: "
        lines += [f"{head}Traceback (most recent call last):", f'{head}  File "/w/train.py", line {n + 3}, in main']
        lines += [f"{head}    step(batch)", head + cause.format(n=n)]
        at.append(len(lines))
    return "\n".join(lines) + "\n", at


Build = Callable[..., Path]


@pytest.fixture
def house(tmp_path: Path) -> Build:
    """Return what makes a corpus: its name, logs a category, and changes to each row."""

    def build(name: str = "house", each: int = 8, categories: tuple[str, ...] = tuple(CAUSES), **row: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        rows = []
        for n in range(each):
            for category in categories:
                cause, scope = CAUSES[category]
                text, lines = _log(cause, n, scope == "all")
                log = f"{category}-{n}.log"
                (folder / log).write_text(text)
                ranks = [] if scope == "all" else [1]
                full = {"log": log, "category": category, "scope": scope, "culprit_ranks": ranks}
                full |= {"evidence_lines": lines} | row
                rows.append({k: v for k, v in full.items() if v is not None})
        (folder / "labels.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        (folder / "categories.toml").write_text(HOUSE)
        return folder

    return build
