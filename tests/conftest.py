"""What several tests share: small jobs of real processes (gloo, on the CPU) that fail, under several launchers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_TRAIN = """
import os, sys
import torch, torch.distributed as dist

def train(rank=None, port=None):
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
        import socket
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        torch.multiprocessing.spawn(train, (port,), nprocs=2)
    else:
        train()
"""
_SHELL = """
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
MASTER_PORT=$({python} -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
export MASTER_PORT
RANK=0 {python} {script} 2> >(sed -u 's/^/[rank0]: /' >&2) & first=$!
RANK=1 {python} {script} 2> >(sed -u 's/^/[rank1]: /' >&2) & second=$!
wait $second; status=$?; wait $first; exit $status
"""
LAUNCHERS = ("torchrun", "spawn", "shell")


@pytest.fixture(params=LAUNCHERS)
def failing_job(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The command of a two-rank job whose rank 1 raises a KeyError after three steps."""
    pytest.importorskip("torch", reason="torch is not installed")
    script = tmp_path / "train.py"
    script.write_text(_TRAIN)
    if request.param == "torchrun":
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    if request.param == "spawn":
        return [sys.executable, str(script), "--spawn"]
    return ["bash", "-c", _SHELL.format(python=sys.executable, script=script)]
