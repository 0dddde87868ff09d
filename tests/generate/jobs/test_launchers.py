"""The ways to start a job: each is a runnable line, draws what it can start, and tells ranks as its logs do."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import replace

import pytest

from ddpclassify.generate.jobs import JobPlan, faults, labelling, make_plan
from ddpclassify.generate.jobs.labelling import label_of
from ddpclassify.generate.jobs.launchers import LAUNCHERS
from ddpclassify.generate.jobs.plan import available, runs_under
from ddpclassify.generate.jobs.workloads import WORKLOADS


@pytest.fixture(autouse=True)
def torch_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels name the version of torch, which these tests do without."""
    monkeypatch.setattr(labelling, "version", lambda package: "2.13.0")


def job(launcher: str, victim: int) -> JobPlan:
    fault = next(fault for fault in faults() if fault.id == "run-code-none")
    return replace(
        make_plan(1, 0, launcher_glob="shell")[0], fault=fault, launcher=LAUNCHERS[launcher], ranks=2, victim=victim
    )


@pytest.mark.parametrize("name", sorted(LAUNCHERS))
def test_a_command_is_whole(name: str) -> None:
    row = LAUNCHERS[name]
    command = row.command.format(python="python3", script="train.py", n=3, port=29500, args="--warmup 100")
    words = shlex.split(command)
    assert "train.py" in command and "--warmup 100" in command and not re.search(r"\{\w+\}", command)
    if words[:2] == ["bash", "-c"]:
        assert subprocess.run(["bash", "-n", "-c", words[2]]).returncode == 0
    assert any(runs_under(workload, row) for workload in WORKLOADS.values())


def test_two_agents_share_the_ranks() -> None:
    """Run the loop of the two-node form with an `echo` for Python."""
    command = LAUNCHERS["torchrun-nodes"].command
    for n, shares in ((2, [1, 1]), (3, [2, 1]), (8, [4, 4])):
        line = command.format(python="echo", script="train.py", n=n, port=1, args="")
        out = subprocess.run(shlex.split(line), capture_output=True, text=True, check=True).stdout
        told = sorted(re.findall(r"\[node-(\d)\].*--nproc_per_node (\d+)", out))
        assert [int(share) for _, share in told] == shares


def test_a_launcher_that_is_not_installed_is_left_out() -> None:
    absent = replace(LAUNCHERS["srun"], program="no-such-program", ready="")
    assert not available(absent)
    for down in ("false", "no-such-command", "sleep 60"):
        assert not available(replace(LAUNCHERS["shell"], ready=down))
    assert available(LAUNCHERS["shell"]) == (shutil.which("bash") is not None)


def test_some_launchers_start_only_some_workloads() -> None:
    assert runs_under(WORKLOADS["lightning_module"], LAUNCHERS["lightning"])
    assert not runs_under(WORKLOADS["manual"], LAUNCHERS["lightning"])
    assert not runs_under(WORKLOADS["lightning_module"], LAUNCHERS["torchrun-nodes-bare"])


@pytest.mark.parametrize(
    ("launcher", "log"),
    [
        ("shell-files", "==> rank0.log <==\nstep 1\n\n==> rank1.log <==\nTraceback\nAttributeError: 'NoneType' object has no attribute 'step'\n"),
        ("torchrun-logs", "==> elastic/none_x8/attempt_0/0/stderr.log <==\n\n==> elastic/none_x8/attempt_0/1/stderr.log <==\nTraceback\nAttributeError: 'NoneType' object has no attribute 'step'\n"),
        ("srun-label", "0: step 1\n1: Traceback\n1: AttributeError: 'NoneType' object has no attribute 'step'\n"),
    ],
)  # fmt: skip
def test_the_rank_is_read_where_the_launcher_writes_it(launcher: str, log: str) -> None:
    told = label_of(job(launcher, victim=1), log.encode())
    assert told is not None and (told["scope"], told["culprit_ranks"]) == ("ranks", [1])
    not_told = label_of(job(launcher, victim=0), log.encode())
    assert not_told is not None and not_told["scope"] == "unknown"


def test_a_local_rank_on_two_nodes_names_nobody() -> None:
    fault = next(fault for fault in faults() if fault.id == "run-nat-segv")
    log = b"E1 api.py:1002] failed (exitcode: -11) local_rank: 0 (pid: 7) of binary: python\n"
    for launcher, scope in (("torchrun", "ranks"), ("torchrun-nodes", "unknown")):
        told = label_of(replace(job(launcher, victim=0), fault=fault), log)
        assert told is not None and told["scope"] == scope
