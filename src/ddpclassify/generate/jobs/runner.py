"""Run planned jobs, record their logs, and label what the log shows.

Each job runs in a folder of its own, in a session of its own, bounded in time; whatever it leaves running is killed.
The recorded log is the job's output byte for byte, but for names: the folder, the interpreter's prefix and the host
are replaced by invented ones. A job whose log does not show its fault is not recorded.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ddpclassify.generate.jobs.launchers import SLURM_NODE
from ddpclassify.generate.jobs.plan import JobPlan, files_of, script_of

LIMIT = 75  # seconds a job may take
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "WARNING",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HYDRA_FULL_ERROR": "1",
}


def run_all(plan: list[JobPlan], out: Path, workers: int = 2, report: Callable[[str], None] = lambda text: None) -> int:
    """Run the jobs that `out` does not hold yet; returns the number of recorded ones.

    Labels are appended one whole line at a time; a log is written before its label, so a killed run resumes with the
    first job that has none.
    """
    (out / "logs").mkdir(parents=True, exist_ok=True)
    done_file = out / "done.txt"
    done = set(done_file.read_text().split()) if done_file.is_file() else set()
    todo = [job for job in plan if job.name not in done]
    start, recorded = time.monotonic(), 0
    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(run_one, job): job for job in todo}
        for number, future in enumerate(as_completed(futures), 1):
            job = futures[future]
            log, label = future.result()
            if label is not None:
                recorded += 1
                (out / str(label["log"])).write_bytes(log)
                _append(out / "labels.jsonl", json.dumps(label))
            _append(done_file, job.name)
            left = (time.monotonic() - start) / number * (len(todo) - number)
            shown = "recorded" if label is not None else "not shown"
            report(f"{number}/{len(todo)} {job.fault.id} under {job.launcher.name}: {shown}; {left / 60:.0f} min left")
    return recorded


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def run_one(job: JobPlan) -> tuple[bytes, dict[str, Any] | None]:
    """Run one job and return its log and label (`None` when the fault did not show)."""
    with tempfile.TemporaryDirectory(prefix="job-") as name, ExitStack() as stack:
        folder = Path(name)
        port = _free_port()
        values: dict[str, Any] = {"PORT2": _free_port()}
        if job.fault.act == "http":
            values["HTTP"] = stack.enter_context(_Service()).port
        if job.fault.act == "port_in_use":
            stack.enter_context(_listening(port))
        if job.fault.act != "no_script":
            for file, text in files_of(job.script, script_of(job, values)).items():
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
        raw = _run(shlex.split(command), folder, {**_QUIET, **job.fault.env}, job)
        log = _renamed(raw, folder, job)
        label = label_of(job, log)
        if label is not None:
            label["started"] = started
        return log, label


def _run(command: list[str], folder: Path, env: dict[str, str], job: JobPlan) -> bytes:
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("TORCHELASTIC", "PYTEST", "SLURM", "OMPI", "PMI"))
    }
    with (folder.parent / f"{folder.name}.out").open("w+b") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**clean, **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + LIMIT
        if job.fault.act.startswith("signal "):
            _wait_for_step(Path(output.name), deadline - 30, job)
            number = signal.Signals[f"SIG{job.fault.act.split()[1]}"]
            if number is signal.SIGINT:
                os.killpg(process.pid, number)  # a terminal's Ctrl-C reaches the whole foreground group
            else:
                process.send_signal(number)
        try:
            process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        finally:
            _kill_session(process.pid)
            process.wait()
        data = Path(output.name).read_bytes()
    Path(output.name).unlink()
    return data


def _wait_for_step(output: Path, deadline: float, job: JobPlan) -> None:
    """Wait until training has begun (or as long as starting takes, for jobs that print nothing)."""
    begun = time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(0.3)
        text = output.read_bytes()
        if re.search(rb"(?:step|iter|\"step\":) ?[2-9]|[2-9]/24", text) or time.monotonic() - begun > 6 + 3 * job.ranks:
            return


def _kill_session(session: int) -> None:
    """Kill every process of the job's session; launchers give their workers groups of their own."""
    for _ in range(3):
        found = False
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[3] == str(session) and fields[0] != "Z":
                found = True
                try:
                    os.kill(int(stat.parent.name), signal.SIGKILL)
                except ProcessLookupError:
                    continue
        if not found:
            return
        time.sleep(0.05)


def _renamed(raw: bytes, folder: Path, job: JobPlan) -> bytes:
    """Replace this machine's names by invented ones; nothing else changes."""
    host = socket.gethostname()
    pairs = [
        (str(folder), job.home),
        (f"/private{folder}", job.home),
        (sys.prefix, "/opt/conda/envs/train"),
        (sys.base_prefix, "/opt/conda"),
        (socket.getfqdn(), f"{job.host}.cluster.local"),
        (host, job.host),
        (SLURM_NODE, job.host),
    ]
    for old, new in pairs:
        if len(old) > 2:
            raw = re.sub(rb"(?<![\w-])" + re.escape(old.encode()) + rb"(?![\w-])", new.encode(), raw)
    return raw


def label_of(job: JobPlan, log: bytes) -> dict[str, Any] | None:
    """Label a log by what it shows, or return `None` when it does not show the job's fault."""
    fault = job.fault
    lines = log.decode("utf-8", "replace").split("\n")
    evidence: list[int] = []
    if fault.category == "no_failure":
        if not any("finished" in line for line in lines):
            return None
        scope, culprits = "none", list[int]()
    else:
        pattern = re.compile(fault.evidence)
        code = {part.strip() for part in fault.code.split("\n")}
        evidence = [n for n, line in enumerate(lines, 1) if pattern.search(line) and _bare(line) not in code]
        if not evidence:
            return None
        evidence, scope, culprits = _who(job, lines, evidence)
    return {
        "log": f"logs/{job.name}.log",
        "category": fault.category,
        "scope": scope,
        "culprit_ranks": culprits,
        "evidence_lines": evidence,
        "reason": fault.reason,
        "launcher": job.launcher.label,
        "launcher_form": job.launcher.name,
        "backend": "gloo",
        "world_size": job.ranks,
        "provenance": "executed",
        "template": fault.id,
        "workload": job.workload,
        "torch": version("torch").partition("+")[0],
        "damage": "none",
    }


def _bare(line: str) -> str:
    return re.sub(r"^(?:\[[^\]]*\](?:<\w+>)?:? ?)+", "", line).strip()


def _who(job: JobPlan, lines: list[str], evidence: list[int]) -> tuple[list[int], str, list[int]]:
    """The evidence of the culprits, the scope, and the culprit ranks, as far as the text tells them."""
    fault, launcher = job.fault, job.launcher
    if launcher.header:
        lines = _with_ranks(lines, launcher.header)
    if fault.where == "outside":
        return evidence, "launcher", []
    spawned = [int(m[1]) for line in lines if (m := re.search(r"Process (\d+) terminated with", line))]
    spawned += [int(m[1]) for line in lines if (m := re.search(r"process (\d+) terminated with", line))]
    if fault.where == "all" and len(evidence) >= job.ranks:
        return evidence, "all", []
    if not launcher.shows_all:
        if fault.where == "others":
            return evidence, "unknown", []
        return (evidence, "ranks", sorted(set(spawned))) if spawned else (evidence, "unknown", [])
    if fault.where == "all":
        return evidence, "all", []
    victims = [job.victim]
    if fault.where == "race":
        victims = sorted({r for r in range(job.ranks) for n in evidence if _marked(launcher.marks, r, lines[n - 1])})
        if not victims:
            return evidence, "unknown", []
        return evidence, "ranks", victims
    if fault.where == "others":
        told = [r for r in range(job.ranks) if any(_marked(launcher.marks, r, lines[n - 1]) for n in evidence)]
        named = any(re.search(rf"Ranks? (?:\d+, )*{job.victim}\b", lines[n - 1]) for n in evidence)
        known = named or len(told) == job.ranks - 1
        return (evidence, "ranks", victims) if known else (evidence, "unknown", [])
    mine = [n for n in evidence if _marked(launcher.marks, job.victim, lines[n - 1])]
    if mine:
        return mine, "ranks", victims
    if _only_row(lines, job.victim) or (
        launcher.nodes == 1 and any(re.search(rf"local_rank: {job.victim} \(pid", lines[n - 1]) for n in evidence)
    ):
        return evidence, "ranks", victims
    if any(re.search(rf"[Rr]ank {job.victim}\b|\[{job.victim}\]: params", lines[n - 1]) for n in evidence):
        return evidence, "ranks", victims
    return evidence, "unknown", []


def _marked(marks: str, rank: int, line: str) -> bool:
    return bool(re.search(rf"\[rank{rank}\]:", line) or (marks and re.search(marks.replace("{rank}", str(rank)), line)))


def _with_ranks(lines: list[str], header: str) -> list[str]:
    """The lines of joined files, each marked with the rank that the header above it names."""
    rank, out = "", []
    for line in lines:
        if line.startswith("==> "):
            rank = f"[rank{m[1]}]: " if (m := re.search(header, line)) else ""
        out.append(rank + line)
    return out


def _only_row(lines: list[str], rank: int) -> bool:
    """Whether torchrun's table lists this rank as the only one that failed by itself."""
    rows: dict[int, str] = {}
    last = None
    for line in lines:
        if m := re.search(r"rank\s+: (\d+) \(local_rank", line):
            last = int(m[1])
        elif (m := re.search(r"exitcode\s+: (-?\d+)", line)) and last is not None:
            rows[last] = m[1]
    own = {r for r, code in rows.items() if code != "-15"}
    return own == {rank} or (
        rank in rows and rows[rank] not in ("1", "-15") and sum(c == rows[rank] for c in rows.values()) == 1
    )


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


class _listening:
    """Holds a port, so that the job finds it taken."""

    def __init__(self, port: int) -> None:
        self.sockets = []
        for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
            try:
                s = socket.socket(family, socket.SOCK_STREAM)
                if family == socket.AF_INET6:
                    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                s.bind((address, port))
                s.listen()
                self.sockets.append(s)
            except OSError:
                continue

    def __enter__(self) -> _listening:
        return self

    def __exit__(self, *_: object) -> None:
        for s in self.sockets:
            s.close()


class _Service:
    """A server on loopback that answers every request with the status that it asks for."""

    def __init__(self) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                self.send_error(int(query.get("status", ["503"])[0]))

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = int(self.server.server_address[1])

    def __enter__(self) -> _Service:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
