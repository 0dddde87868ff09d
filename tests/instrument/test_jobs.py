"""`ddpclassify.instrument` in real two-rank jobs, and what their logs then tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpclassify import load_model

pytestmark = pytest.mark.gloo

SCRIPT = """
import sys, time
from ddpclassify import instrument
instrument.setup()
import torch, torch.distributed as dist
instrument.preflight()
dist.init_process_group("gloo")
rank, fault = dist.get_rank(), sys.argv[1]
instrument.preflight(data_length=100 - rank * (fault == "length"))
if fault == "late" and rank == 1:
    time.sleep(60)
instrument.checkpoint("after load", timeout=2)
for step in range(4):
    instrument.at(step=step)
    dist.all_reduce(torch.ones(1))
    print("step", step, "loss", 0.5)
    if fault == "error" and step == 2 and rank == 1:
        print(undefined_name)
dist.destroy_process_group()
"""


def job(folder: Path, fault: str) -> tuple[int, str]:
    pytest.importorskip("torch")
    (folder / "train.py").write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        "2",
        "train.py",
        fault,
    ]
    env = {
        **os.environ,
        "DEBUG_DDP": "1",
        "TORCHELASTIC_ERROR_FILE": str(folder / "error.json"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False
    )
    return done.returncode, done.stdout.decode()


def test_an_error_names_rank_and_step_and_reaches_the_launcher(tmp_path: Path) -> None:
    status, log = job(tmp_path, "error")
    assert status == 1
    assert "pre-flight: 2 ranks agree" in log
    assert log.count("checkpoint 'after load' reached") == 2
    assert "rank 1 ends at step 2 with NameError" in log
    assert "NameError: name 'undefined_name' is not defined" in log.partition("Root Cause")[2]
    assert json.loads((tmp_path / "error.json").read_text())["message"]["extraInfo"]["rank"] == 1
    answer = load_model().diagnose(log.splitlines())
    assert (answer.category, answer.culprit_ranks) == ("code_error", [1])


def test_a_rank_that_does_not_come_is_named(tmp_path: Path) -> None:
    status, log = job(tmp_path, "late")
    assert status == 1
    assert "Rank 1 failed to pass monitoredBarrier in 2000 ms (checkpoint 'after load')" in log
    answer = load_model().diagnose(log.splitlines())
    assert (answer.category, answer.culprit_ranks) == ("collective_timeout", [1])


def test_ranks_that_do_not_fit_end_before_step_0(tmp_path: Path) -> None:
    status, log = job(tmp_path, "length")
    assert status == 1
    assert "the data length differs: 100 on rank 0, 99 on rank 1" in log
    assert "step 0" not in log


def test_logs_written_with_it_tell_the_culprit_and_its_host() -> None:
    """One fault of `benchmarks/instrument.py`: three plain processes that share a log, one of which gives up."""
    pytest.importorskip("torch")
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        import instrument as benchmark
    finally:
        del sys.path[0]
    results = benchmark.measure(["exit"])
    assert results[True] == [(True, True)]
    assert results[False][0][1] is False  # a plain log names no host
