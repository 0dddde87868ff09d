"""Run planned jobs and record their logs with labels.

Each job runs in a folder of its own, bounded in time; whatever it leaves running is killed, by `guard.py` even when the
run itself is killed. The recorded log is the job's output byte for byte, but for names: the folder, the interpreter's
prefix and the host are replaced by invented ones. A job whose log does not show its fault is not recorded.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ddpclassify.files import alone, whole_lines
from ddpclassify.generate.jobs import guard
from ddpclassify.generate.jobs.acts import happen, surroundings, wrapped
from ddpclassify.generate.jobs.labelling import label_of
from ddpclassify.generate.jobs.launchers import SLURM_NODE
from ddpclassify.generate.jobs.plan import JobPlan, files_of, script_of
from ddpclassify.types import InputError

LIMIT = 75  # seconds a job may take
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "WARNING",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HYDRA_FULL_ERROR": "1",
}


def run_all(plan: list[JobPlan], out: Path, workers: int = 2, report: Callable[[str], None] = lambda text: None) -> int:
    """Run the jobs that `out` does not hold yet; returns the number of recorded ones.

    A log is written before its label, and a label before the job counts as done, so a killed run resumes with the first
    job that is not.

    Raises
    ------
    InputError : another run works in `out`, or `out` holds other jobs than the plan's
    """
    with alone(out), _scratch() as scratch, ThreadPoolExecutor(workers) as pool:
        (out / "logs").mkdir(exist_ok=True)
        todo = _not_done(plan, out)
        start, recorded = time.monotonic(), 0
        futures = {pool.submit(run_one, job, scratch): job for job in todo}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                job = futures[future]
                log, label = future.result()
                if label is not None:
                    recorded += 1
                    (out / str(label["log"])).write_bytes(log)
                    _append(out / "labels.jsonl", json.dumps(label))
                _append(out / "done.txt", _told(job))
                left = (time.monotonic() - start) / number * (len(todo) - number)
                shown = "recorded" if label is not None else "not shown"
                report(
                    f"{number}/{len(todo)} {job.fault.id} under {job.launcher.name}: {shown}; {left / 60:.0f} min left"
                )
        except BaseException:  # Ctrl-C too: without this the pool would run all other jobs first
            pool.shutdown(wait=False, cancel_futures=True)
            guard.kill_below(scratch)
            raise
    return recorded


def _told(job: JobPlan) -> str:
    return f"{job.name} {job.fault.id} {job.workload} {job.launcher.name} {job.ranks} {job.seed}"


def _not_done(plan: list[JobPlan], out: Path) -> list[JobPlan]:
    """The jobs of the plan that `out` does not hold; what a kill left half written there is removed."""
    done = {line.partition(" ")[0]: line for line in whole_lines(out / "done.txt")}
    labelled = {Path(json.loads(line)["log"]).stem for line in whole_lines(out / "labels.jsonl")}
    for job in plan:
        if done.get(job.name, _told(job)) != _told(job):
            raise InputError(f"{out}: holds jobs of another plan (seed, options or version); give a new folder")
    return [job for job in plan if job.name not in done and job.name not in labelled]


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for the jobs; it vanishes with them when this process ends, however it does."""
    folder = Path(tempfile.mkdtemp(prefix="ddpclassify-jobs-"))
    command = [sys.executable, "-S", "-E", guard.__file__, str(folder)]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield folder
    finally:
        watcher.communicate()


def run_one(job: JobPlan, scratch: Path) -> tuple[bytes, dict[str, Any] | None]:
    """Run one job in a folder below `scratch`; returns its log and label (`None` when the fault did not show)."""
    folder = Path(tempfile.mkdtemp(prefix="job-", dir=scratch))
    try:
        port = _free_port()
        with surroundings(job.fault.act, port) as values:
            if job.fault.act != "no_script":
                for file, text in files_of(job.script, script_of(job, {"PORT2": _free_port(), **values})).items():
                    (folder / file).parent.mkdir(exist_ok=True)
                    (folder / file).write_text(text, "utf-8")
            for file, text in job.launcher.files.items():
                (folder / file).write_text(text, "utf-8")
            if job.workload == "images":
                _make_images(folder / "data", job.ranks)
            command = job.launcher.command.format(
                python=sys.executable, script=job.script, n=job.ranks, port=port, args=job.fault.args
            )
            started = time.strftime("%Y-%m-%dT%H:%M:%S")
            raw, lost = _run(wrapped(job.fault.act, shlex.split(command)), folder, job)
        log = _renamed(raw, folder, job)
        # Where two ranks' writes cut a path in two, it keeps this machine's names.
        whole = folder.name.encode() not in log and folder.parent.name.encode() not in log
        label = label_of(job, log, lost) if whole else None
        if label is not None:
            label["started"] = started
        return log, label
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], folder: Path, job: JobPlan) -> tuple[bytes, list[int]]:
    """Run a command to its end or the limit; returns its output and the ranks that an act took away."""
    temporary = folder / ".tmp"
    temporary.mkdir()
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("TORCHELASTIC", "PYTEST", "SLURM", "OMPI", "PMI"))
    }
    output = folder / ".output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**clean, **_QUIET, **job.fault.env, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + LIMIT
        lost: list[int] = []
        try:
            lost = happen(job.fault.act, process, output, LIMIT - 30, job.ranks)
            process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        finally:
            guard.kill_below(folder)
            process.wait()
    return output.read_bytes(), lost


def _renamed(raw: bytes, folder: Path, job: JobPlan) -> bytes:
    """Replace this machine's names by invented ones; nothing else changes."""
    host = socket.gethostname()
    pairs = [
        (str(folder / ".tmp"), "/tmp"),
        (str(folder), job.home),
        (f"/private{folder}", job.home),
        (sys.prefix, "/opt/conda/envs/train"),
        (sys.base_prefix, "/opt/conda"),
        (socket.getfqdn(), f"{job.host}.cluster.local"),
        (host, job.host) if len(host) > 2 else (f"node {host}", f"node {job.host}"),
        (SLURM_NODE, job.host),
    ]
    for old, new in pairs:
        if len(old) > 2:
            raw = re.sub(rb"(?<![\w-])" + re.escape(old.encode()) + rb"(?![\w-])", new.encode(), raw)
    return raw


def _make_images(folder: Path, ranks: int) -> None:
    import numpy as np

    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(8 * ranks):
        np.save(folder / f"img_{i % 5}_{i:04d}.npy", rng.random((3, 16, 16), dtype=np.float32))


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
