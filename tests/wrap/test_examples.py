"""The examples: every shell script parses, what a workflow runs does what it says, completion completes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CASE = Path(__file__).parent.parent / "cases" / "oom-one-of-eight-then-watchdogs.log"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def bash(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", *args], capture_output=True, text=True, env={**os.environ, "PATH": PATH, **env})


@pytest.mark.parametrize("script", [*EXAMPLES.rglob("*.sh"), *EXAMPLES.rglob("*.sbatch")], ids=lambda p: p.name)
def test_shell_scripts_parse(script: Path) -> None:
    done = bash("-n", str(script))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("readme", [*EXAMPLES.rglob("README.md")], ids=lambda p: p.parent.name)
def test_shell_in_the_readmes_parses(readme: Path) -> None:
    for block in re.findall(r"```sh\n(.*?)```", readme.read_text(), re.S):
        assert bash("-n", "-c", block).returncode == 0


def test_the_epilog_diagnoses_failed_jobs_as_their_user(tmp_path: Path) -> None:
    log = tmp_path / "out.txt"
    log.write_text(CASE.read_text())
    tools = {
        "scontrol": f'echo "JobId=$3 JobName=x ExitCode=$CODE BatchHost=n1 StdOut={log} Power="',
        "runuser": f'[ "$1 $2 $3" = "-u ann --" ] && shift 3 && PATH={PATH} "$@"',
        "setsid": 'shift; "$@"',  # wait for it
    }
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = (EXAMPLES / "slurm" / "epilog.sh").read_text().replace("PATH=/usr", f"PATH={tmp_path}:/usr")
    (tmp_path / "epilog.sh").write_text(script)
    command = f"{sys.executable} -m ddpclassify"
    (tmp_path / "ddpclassify").write_text(f'#!/bin/bash\nexec {command} "$@"\n')
    (tmp_path / "ddpclassify").chmod(0o755)
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_USER": "ann", "DDPCLASSIFY": str(tmp_path / "ddpclassify")}
    diagnosis = tmp_path / "out.txt.diagnosis"
    for more in ({"CODE": "0:0", "SLURMD_NODENAME": "n1"}, {"CODE": "1:0", "SLURMD_NODENAME": "n2"}):
        assert bash(str(tmp_path / "epilog.sh"), **job, **more).returncode == 0
        assert not diagnosis.exists()
    assert bash(str(tmp_path / "epilog.sh"), **job, CODE="1:0", SLURMD_NODENAME="n1").returncode == 0
    assert "cuda_oom" in diagnosis.read_text()
    assert bash(str(tmp_path / "epilog.sh")).returncode == 0


def test_the_workflow_writes_its_summary(tmp_path: Path) -> None:
    workflow = (EXAMPLES / "github-actions" / "train.yml").read_text()
    (block,) = re.findall(r"        run: \|\n((?:          .*\n)+)", workflow)
    (tmp_path / "logs" / "1").mkdir(parents=True)
    (tmp_path / "logs" / "1" / "output.log").write_text(CASE.read_text())
    script = f'cd {tmp_path}\nddpclassify() {{ {sys.executable} -m ddpclassify "$@"; }}\n' + textwrap.dedent(block)
    done = bash("-e", "-c", script, GITHUB_STEP_SUMMARY=str(tmp_path / "summary"))
    assert done.returncode == 0, done.stderr
    assert "cuda_oom" in (tmp_path / "summary").read_text()
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {"1", "diagnosis.json", "report.html"}


@pytest.mark.parametrize(("job", "answer", "status"), [(0, 99, 0), (1, 11, 11), (1, 12, 12), (137, 0, 137), (3, 1, 3)])
def test_a_kubernetes_job_ends_with_the_restart_code(tmp_path: Path, job: int, answer: int, status: int) -> None:
    done = bash("-c", _restarting(tmp_path, f"(exit {job})", f"(exit {answer})"))
    assert done.returncode == status, done.stderr


def test_a_kubernetes_job_hands_sigterm_on(tmp_path: Path) -> None:
    waits = "exec bash -c 'trap \"exit 143\" TERM; touch started; while :; do sleep 0.1; done'"
    process = subprocess.Popen(["bash", "-c", f"cd {tmp_path}; {_restarting(tmp_path, waits, '(exit 11)')}"])
    while not (tmp_path / "started").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143


def _restarting(logs: Path, run: str, predict: str) -> str:
    """The script of restart.yaml with stand-ins for both commands of ddpclassify."""
    text = (EXAMPLES / "kubernetes" / "restart.yaml").read_text()
    (block,) = re.findall(r"            - \|\n((?:              .*\n)+)", text)
    stand_in = f"ddpclassify() {{ if [ $1 = run ]; then {run}; else {predict}; fi; }}\n"
    return stand_in + textwrap.dedent(block).replace("/logs", str(logs))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    line = {"COMP_WORDS": "ddpclassify categories cuda_", "COMP_CWORD": "2" if shell != "fish" else "cuda_"}
    done = subprocess.run(
        [sys.executable, "-c", "from ddpclassify.cli import main; import sys; sys.argv = ['ddpclassify']; main()"],
        capture_output=True,
        text=True,
        env={**os.environ, **line, "_DDPCLASSIFY_COMPLETE": f"{shell}_complete"},
    )
    assert "cuda_oom" in done.stdout
    assert f"_DDPCLASSIFY_COMPLETE={shell}_source" in (EXAMPLES / "completion" / "README.md").read_text()
