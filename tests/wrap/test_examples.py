"""The examples: every shell script parses, what a workflow runs does what it says, completion completes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
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


def pod(tmp_path: Path, *command: str) -> subprocess.Popen[bytes]:
    """Start the script of the Kubernetes Job in a plain shell, with another command for torchrun."""
    job = (EXAMPLES / "kubernetes" / "job-restart.yaml").read_text()
    (script,) = re.findall(r"            - \|\n((?: {14}.*\n)+)", job)
    program = tmp_path / "ddpclassify"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ddpclassify "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{PATH}", "LOGS": str(tmp_path / "logs"), "HOSTNAME": "train-0"}
    return subprocess.Popen(["sh", "-c", textwrap.dedent(script), "train", *command], stdout=subprocess.PIPE, env=env)


@pytest.mark.parametrize("log", [CASE, Path(os.devnull)], ids=lambda p: p.stem)
def test_the_kubernetes_job_ends_with_the_restart_code(log: Path, tmp_path: Path) -> None:
    predict = [sys.executable, "-m", "ddpclassify", "predict", "--restart-code", "-"]
    with log.open() as opened:
        expected = subprocess.run(predict, stdin=opened, capture_output=True, check=False).returncode
    with pod(tmp_path, "sh", "-c", f"cat {log}; exit 1") as process:
        out = process.communicate(timeout=60)[0]
    assert process.returncode == expected >= 10
    assert (b"cuda_oom" in out) == (log == CASE)


def test_the_kubernetes_job_that_ends_well_ends_well(tmp_path: Path) -> None:
    with pod(tmp_path, "true") as process:
        assert process.wait(timeout=60) == 0


def test_the_kubernetes_job_passes_the_end_of_its_pod_on(tmp_path: Path) -> None:
    job = "trap 'echo saved; exit 5' TERM; echo ready; while true; do sleep 0.1; done"
    with pod(tmp_path, "sh", "-c", job) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        out = process.communicate(timeout=60)[0]
    assert b"saved" in out
    assert process.returncode in (5, 10, 11, 12)


@pytest.mark.parametrize("file", [*EXAMPLES.rglob("*.yaml"), *EXAMPLES.rglob("*.yml")], ids=lambda p: p.name)
def test_yaml_parses(file: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    assert {"kind", "jobs"} & set(yaml.safe_load(file.read_text()))


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
