"""Processes that die: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from fleet_rows import fleet, logs, results

from ddpclassify.fleet.engine import Engine
from ddpclassify.fleet.listing import Item


def deadly(items: list[Item]) -> list[str]:
    """Stands for a diagnosis; one log kills whoever reads it."""
    if any(item.name == "poison" for item in items):
        os.kill(os.getpid(), signal.SIGKILL)
    return [f"read {item.name}" for item in items]


def test_a_log_that_kills_its_reader_is_found_and_the_others_are_read() -> None:
    names = [f"log{n}" for n in range(60)]
    names[37] = "poison"
    with Engine(jobs=2) as engine:
        found = dict(engine.map(deadly, [Item(n, None, None) for n in names], lambda item: f"died {item.name}"))
    answers = [answer for start in sorted(found) for answer in found[start]]
    assert answers == [("died " if name == "poison" else "read ") + name for name in names]


def wait_for(what: Callable[[], object], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def start(folder: Path, out: Path, *args: object) -> subprocess.Popen[bytes]:
    """Start a run; as a context its pipe is closed in any case."""
    command = [sys.executable, "-m", "ddpclassify", "fleet", folder, "-o", out, "--part", 20, *args]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> int:
    _, errors = process.communicate(timeout=180)
    assert b"Traceback" not in errors, errors
    return process.returncode


def texts(out: Path) -> list[str]:
    return [json.dumps(row) for row in results(out)]


needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers through /proc")


def workers(parent: int) -> list[Path]:
    """The processes of loky that a run has started."""
    return [proc for proc in Path("/proc").glob("[0-9]*") if _is_worker(proc, parent)]


def _is_worker(proc: Path, parent: int) -> bool:
    try:
        return _state(proc)[1] == str(parent) and b"LokyProcess" in (proc / "cmdline").read_bytes()
    except OSError:
        return False


def _state(proc: Path) -> list[str]:
    """State, parent and so on; a process that has gone counts as a dead one."""
    try:
        return (proc / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z", ""]


@needs_proc
def test_a_worker_killed_in_the_middle(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 60), tmp_path / "out"
    process = start(folder, out, "-j", 2)
    wait_for(lambda: list(out.glob("part-*.jsonl")))
    for victim in workers(process.pid)[:1]:
        os.kill(int(victim.name), signal.SIGKILL)
    assert ended(process) == 0
    fleet(folder, "-o", tmp_path / "quiet", "-j", 1)
    assert texts(out) == texts(tmp_path / "quiet")


@needs_proc
def test_a_killed_run_leaves_no_worker_and_goes_on_when_started_again(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 300), tmp_path / "out"
    process = start(folder, out, "-j", 2)
    wait_for(lambda: list(out.glob("part-*.jsonl")))
    left = workers(process.pid)
    process.kill()
    process.communicate()
    assert len(left) == 2
    wait_for(lambda: all(_state(proc)[0] == "Z" for proc in left))
    assert fleet(folder, "-o", out, "-j", 2).returncode == 0
    fleet(folder, "-o", tmp_path / "quiet", "-j", 2, "--part", 20)
    assert texts(out) == texts(tmp_path / "quiet")


class Cluster(NamedTuple):
    """A real Dask scheduler with its address, and three worker processes."""

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Start a cluster; its parameter is the version of ddpclassify that the workers find."""
    pytest.importorskip("distributed", reason="Dask is not installed")
    file = tmp_path / "scheduler.json"
    environment = dict(os.environ)
    commands = [["scheduler", "--port", "0"], *[["worker", "--nthreads", "1", "--no-nanny"]] * 3]
    with ExitStack() as stack:
        started = []
        for name, *args in commands:
            command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *args, "--no-dashboard"]
            process = subprocess.Popen(
                [*command, "--scheduler-file", str(file)],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            started.append(process)
            if (version := getattr(request, "param", None)) is not None:  # the next ones
                (tmp_path / "other" / "ddpclassify").mkdir(parents=True, exist_ok=True)
                (tmp_path / "other" / "ddpclassify" / "__init__.py").write_text(f"__version__ = {version!r}\n")
                environment["PYTHONPATH"] = str(tmp_path / "other")
        wait_for(lambda: file.exists() and file.stat().st_size)
        yield Cluster(json.loads(file.read_text())["address"], started[0], started[1:])


def test_a_dask_worker_killed_in_the_middle(tmp_path: Path, cluster: Cluster) -> None:
    folder, out = logs(tmp_path / "logs", 120), tmp_path / "out"
    process = start(folder, out, "--backend", "dask", "--scheduler", cluster.address)
    wait_for(lambda: list(out.glob("part-*.jsonl")))
    cluster.workers[0].kill()
    assert ended(process) == 0
    fleet(folder, "-o", tmp_path / "quiet", "-j", 2)
    assert texts(out) == texts(tmp_path / "quiet")


def test_what_a_lost_dask_scheduler_leaves_is_kept(tmp_path: Path, cluster: Cluster) -> None:
    folder, out = logs(tmp_path / "logs", 120), tmp_path / "out"
    process = start(folder, out, "--backend", "dask", "--scheduler", cluster.address)
    wait_for(lambda: list(out.glob("part-*.jsonl")))
    cluster.scheduler.kill()
    assert ended(process) == 1
    kept = len(results(out))
    assert 20 <= kept < 120
    again = fleet(folder, "-o", out, "-j", 1)
    assert f"{120 - kept} diagnosed, {kept} unchanged".encode() in again.stderr


@pytest.mark.parametrize("cluster", ["0.0.1"], indirect=True)
def test_dask_workers_with_another_version_are_refused(tmp_path: Path, cluster: Cluster) -> None:
    """With another version results would be mixed; without any, Dask would wait for ever."""
    done = fleet(
        logs(tmp_path / "logs", 1), "-o", tmp_path / "out", "--backend", "dask", "--scheduler", cluster.address
    )
    assert (done.returncode, b"has ddpclassify 0.0.1, not" in done.stderr) == (1, True)


def test_a_ray_worker_killed_in_the_middle(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    folder, out = logs(tmp_path / "logs", 200), tmp_path / "out"
    process = start(folder, out, "--backend", "ray", "-j", 2)
    wait_for(lambda: list(out.glob("part-*.jsonl")))
    found = subprocess.run(["pgrep", "-f", "^ray::PoolActor"], capture_output=True, check=True).stdout
    os.kill(int(found.split()[0]), signal.SIGKILL)
    assert ended(process) == 0
    fleet(folder, "-o", tmp_path / "quiet", "-j", 2)
    assert texts(out) == texts(tmp_path / "quiet")


def test_stopped_and_started_again(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 60), tmp_path / "out"
    process = start(folder, out, "-j", 1)
    wait_for(lambda: list(out.glob("part-*.jsonl")))
    process.terminate()
    assert ended(process) in (0, 130)
    assert fleet(folder, "-o", out, "-j", 1).returncode == 0
    names = [row["source"] for row in results(out)]
    assert sorted(names) == sorted(str(path) for path in folder.iterdir())
