"""The examples for schedulers: a job is started again where that helps, and not for ever."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from ddpclassify.fleet.restart import EXIT

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = (EXAMPLES / "kubernetes" / "job-restart.yaml").read_text("utf-8")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="shell scripts")


@pytest.mark.parametrize(
    ("answer", "restarts", "asked"), [(11, "0", True), (11, "3", False), (12, "0", False), (10, "0", False)]
)
def test_requeued_only_where_it_helps(tmp_path: Path, answer: int, restarts: str, asked: bool) -> None:
    for name, script in {"ddpclassify": f"exit {answer}", "scontrol": f'echo "$@" >{tmp_path}/asked'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "SLURM_JOB_ID": "81", "SLURM_RESTART_COUNT": restarts}
    assert subprocess.run([EXAMPLES / "slurm" / "requeue.sh", "job.log"], env=env, check=False).returncode == answer
    found = tmp_path / "asked"
    assert (found.read_text() if found.exists() else "") == ("requeue 81\n" if asked else "")


# `run` writes a log and is replaced by the job; `predict` answers as it is told.
STAND_IN = """#!/bin/sh
case $1 in
  run) mkdir -p "$5/1" && echo log >"$5/1/output.log" && shift 6 && exec "$@" ;;
  predict) [ "$(cat "$3")" = log ] && exit %d ;;
esac
"""


@pytest.mark.parametrize(
    ("job", "answer", "status"),
    [("exit 0", 12, 0), ("exit 1", 11, 11), ("exit 1", 12, 12), ("exit 137", 10, 10), ("exit 137", 0, 137)],
)
def test_a_pod_ends_with_the_answer(tmp_path: Path, job: str, answer: int, status: int) -> None:
    assert pod(tmp_path, job, answer).wait(timeout=30) == status


def test_a_pod_passes_sigterm_on_and_waits_for_the_job(tmp_path: Path) -> None:
    process = pod(tmp_path, "trap 'sleep 0.3; touch saved; exit 3' TERM; touch up; while :; do sleep 0.1; done", 11)
    while not (tmp_path / "up").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert (process.wait(timeout=30), (tmp_path / "saved").exists()) == (11, True)


def pod(folder: Path, job: str, answer: int) -> subprocess.Popen[bytes]:
    """Start the example for Kubernetes with a shell script as the job."""
    (folder / "ddpclassify").write_text(STAND_IN % answer)
    (folder / "ddpclassify").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "LOGS": str(folder / "logs"), "HOSTNAME": "pod"}
    script = textwrap.dedent(JOB.partition("- |\n")[2].partition("            - train\n")[0])
    return subprocess.Popen(["sh", "-c", script, "train", "sh", "-c", job], env=env, cwd=folder)


def test_the_policy_ends_the_job_where_a_restart_is_in_vain() -> None:
    """A drained pod may end with any status, so that it is looked at first."""
    rules = re.findall(r"action: (\w+).*\n +on(\w+)", JOB)
    assert rules == [("Ignore", "PodConditions"), ("FailJob", "ExitCodes")]
    assert re.findall(r"values: \[(.*)\]", JOB) == [str(EXIT["no"])]
