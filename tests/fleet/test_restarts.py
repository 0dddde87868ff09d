"""The examples for schedulers: a job is started again where that helps, and not for ever."""

from __future__ import annotations

import os
import re
import subprocess
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


def test_the_policy_ends_the_job_where_a_restart_is_in_vain() -> None:
    """A drained pod may end with any status, so that it is looked at first."""
    rules = re.findall(r"action: (\w+).*\n +on(\w+)", JOB)
    assert rules == [("Ignore", "PodConditions"), ("FailJob", "ExitCodes")]
    assert re.findall(r"values: \[(.*)\]", JOB) == [str(EXIT["no"])]
