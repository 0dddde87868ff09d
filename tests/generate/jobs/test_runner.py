"""The runner as a tool: it resumes after a kill, keeps a second run out, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ddpclassify.generate.jobs import JobPlan, faults, guard, make_plan, run_all
from ddpclassify.generate.jobs.labelling import label_of
from ddpclassify.generate.jobs.launchers import LAUNCHERS
from ddpclassify.types import InputError

pytest.importorskip("torch")  # a label holds its version

FAILS = 'for r in 0 1; do echo "[rank$r]: NameError: out of reach"; done'
SLEEPS = "setsid sleep 120 & sleep 120"  # one of the processes in a session of its own


def jobs(command: str) -> list[JobPlan]:
    """Three jobs that only run a command, so that no test waits for torch."""
    launcher = replace(LAUNCHERS["shell"], command=f"bash -c '{command}'")
    plan = make_plan(3, 0, "run-code-name", "shell", (2,))
    return [replace(job, launcher=launcher, fault=replace(job.fault, evidence="out of reach")) for job in plan]


def start(out: Path, command: str, scratch: Path) -> subprocess.Popen[bytes]:
    scratch.mkdir(exist_ok=True)
    run = f"import pathlib, test_runner as t; t.run_all(t.jobs({command!r}), pathlib.Path({str(out)!r}), 1)"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": paths}
    return subprocess.Popen([sys.executable, "-c", run], env=environment, stderr=subprocess.DEVNULL)


def until(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def below(scratch: Path) -> list[int]:
    mark = b"\0TMPDIR=" + os.fsencode(scratch / "ddpclassify-jobs-")
    return [pid for pid, environment in guard._environments() if mark in environment]


def test_a_killed_run_leaves_no_process_and_no_file_and_can_be_resumed(tmp_path: Path) -> None:
    out, scratch = tmp_path / "corpus", tmp_path / "scratch"
    run = start(out, SLEEPS, scratch)
    try:
        assert until(lambda: len(below(scratch)) >= 3)  # bash and both sleeps
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert until(lambda: not below(scratch) and not list(scratch.iterdir()))
    finally:
        run.kill()
        run.wait()
    assert not (out / "done.txt").exists()
    assert run_all(jobs(FAILS), out, 1) == 3


def test_a_second_run_in_the_same_folder_is_kept_out(tmp_path: Path) -> None:
    run = start(tmp_path / "corpus", SLEEPS, tmp_path / "scratch")
    try:
        assert until(lambda: len(below(tmp_path / "scratch")) >= 3)
        with pytest.raises(InputError, match="another run is writing here"):
            run_all(jobs(FAILS), tmp_path / "corpus")
        run.send_signal(signal.SIGINT)
        assert run.wait(30) != 0  # Ctrl-C ends it at once: the jobs that wait are not run
        assert until(lambda: not below(tmp_path / "scratch"))
        assert list((tmp_path / "scratch").iterdir()) == []
    finally:
        run.kill()
        run.wait()
    assert run_all(jobs(FAILS), tmp_path / "corpus", 1) == 3


def test_what_a_kill_left_half_written_is_made_anew(tmp_path: Path) -> None:
    assert run_all(jobs(FAILS)[:2], tmp_path, 1) == 2
    labels, done = tmp_path / "labels.jsonl", tmp_path / "done.txt"
    done.write_bytes(done.read_bytes()[:-3])  # killed while it noted the second job, whose label is written
    with labels.open("a") as file:
        file.write('{"log": "logs/00002.lo')  # and again in the third
    assert run_all(jobs(FAILS), tmp_path, 1) == 1
    assert [json.loads(line)["log"] for line in labels.read_text().splitlines()] == [
        "logs/00000.log",
        "logs/00001.log",
        "logs/00002.log",
    ]


def test_a_folder_holds_one_plan(tmp_path: Path) -> None:
    run_all(jobs(FAILS)[:1], tmp_path)
    with pytest.raises(InputError, match="holds jobs of another plan"):
        run_all(make_plan(3, 1, "run-code-name", "shell", (2,)), tmp_path)


def test_a_job_that_hangs_over_its_limit_is_recorded_and_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddpclassify.generate.jobs.runner.LIMIT", 2)
    assert run_all(jobs(f"{FAILS}; {SLEEPS}")[:1], tmp_path / "corpus", 1) == 1


def test_of_two_ranks_that_differ_neither_is_the_culprit() -> None:
    (job,) = make_plan(1, 0, "run-div-dtype", "shell", (2,))
    line = b"[rank0]: RuntimeError: Detected mismatch between collectives on ranks. Rank 0 ...\n"
    two, three = label_of(replace(job, victim=1), line), label_of(replace(job, ranks=3, victim=1), line)
    assert two is not None
    assert (two["scope"], two["culprit_ranks"]) == ("unknown", [])
    assert three is not None
    assert (three["scope"], three["culprit_ranks"]) == ("ranks", [1])


def test_the_ranks_of_a_vanished_node_are_the_culprits() -> None:
    (fault,) = (fault for fault in faults() if fault.id == "run-node-store-gone")
    job = replace(make_plan(1, 0, "*", "shell", (4,))[0], fault=fault)
    line = b"failed to send a keep-alive heartbeat to the rendezvous\n"
    label = label_of(job, line, lost=(0, 1))
    assert label is not None
    assert (label["scope"], label["culprit_ranks"]) == ("ranks", [0, 1])
