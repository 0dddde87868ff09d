"""Measures `ddpclassify fleet` on many logs: logs a second, CPU time a log, memory over time.

    python benchmarks/fleet.py 20000 -j 2
    python benchmarks/fleet.py 4000 -j 2 --dask       a real Dask scheduler, and as many worker processes

The logs are those of data/rendered.tar.xz, over and over, each time with another first line and another day. Linux
only: memory and CPU time come from /proc. A busy machine changes the logs a second, but hardly the CPU time a log.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """Of a process with all below it: CPU seconds and resident bytes; of the process itself: the same."""

    seconds: float
    memory: int
    own_seconds: float
    own_memory: int


def sample(*roots: int) -> Sample:
    """Look at processes and all their descendants; the first root is the one told on its own."""
    found: dict[int, tuple[int, float, float, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                rest = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            own, ended = sum(map(int, rest[11:13])) / TICKS, sum(map(int, rest[13:15])) / TICKS
            found[int(entry.name)] = int(rest[1]), own, ended, int(rest[21]) * PAGE
    mine = set(roots)
    while more := {pid for pid, (parent, *_) in found.items() if parent in mine} - mine:
        mine |= more
    seen = [found[pid] for pid in mine if pid in found]
    _, own, _, memory = found.get(roots[0], (0, 0.0, 0.0, 0)) if roots else (0, 0.0, 0.0, 0)
    return Sample(sum(o + e for _, o, e, _ in seen), sum(m for *_, m in seen), own, memory)


def make(folder: Path, count: int) -> Path:
    """Write logs, unless they are there."""
    logs = folder / f"logs-{count}"
    if logs.is_dir():
        return logs
    half = folder / f"logs-{count}.half"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(ROOT / "data" / "rendered.tar.xz") as packed:
            packed.extractall(temporary, filter="data")
        source = sorted(path for path in Path(temporary).rglob("logs/*") if path.is_file())
        now = time.time()
        for number in range(count):
            path = half / f"job{number:06}.log"
            path.write_bytes(b"job %d\n" % number + source[number % len(source)].read_bytes())
            written = now - 86400 * 30 * (1 - number / count)
            os.utime(path, (written, written))
    half.rename(logs)
    return logs


@contextmanager
def dask(workers: int) -> Iterator[tuple[list[str], list[int]]]:
    """Start a scheduler and worker processes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        base = [sys.executable, "-m", "distributed.cli"]
        start = [[f"{base[-1]}.dask_scheduler", "--port", "0", "--no-dashboard"]]
        start += [[f"{base[-1]}.dask_worker", "--nthreads", "1", "--no-dashboard", "--no-nanny"]] * workers
        started = [
            subprocess.Popen([*base[:2], *args, "--scheduler-file", str(file)], cwd=folder, **quiet)  # type: ignore[call-overload]
            for args in start
        ]
        try:
            while not (file.exists() and file.stat().st_size):
                time.sleep(0.2)
            address = __import__("json").loads(file.read_text())["address"]
            yield ["--backend", "dask", "--scheduler", address], [p.pid for p in started]
        finally:
            for process in started:
                process.send_signal(signal.SIGTERM)
            for process in started:
                process.wait()


def measure(logs: Path, jobs: int, extra: list[str], others: list[int], count: int) -> None:
    """Run fleet once on nothing known, and print what it took."""
    with tempfile.TemporaryDirectory() as out:
        before = sample(*others)
        start = time.monotonic()
        command = [sys.executable, "-m", "ddpclassify", "fleet", str(logs), "-o", out, "-j", str(jobs), *extra]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        samples = []
        while process.poll() is None:
            samples.append(sample(process.pid, *others))
            time.sleep(1)
        wall = time.monotonic() - start
        assert process.stderr is not None
        print(process.stderr.read().strip())
        parts = sorted(Path(out).glob("part-*.jsonl"))
        rows = sum(len(part.read_text().splitlines()) for part in parts)
        written = sum(part.stat().st_size for part in parts)
        index = (Path(out) / "fleet.db").stat().st_size
    assert rows == count, (rows, count)
    seconds = max(s.seconds for s in samples) - before.seconds
    own = max(s.own_seconds for s in samples)
    quarters = [samples[len(samples) * k // 4 : max(1, len(samples) * (k + 1) // 4)] for k in range(4)]
    total = [max((s.memory for s in q), default=0) / 1e6 for q in quarters]
    driver = [max((s.own_memory for s in q), default=0) / 1e6 for q in quarters]
    print(f"{count} logs, {jobs} processes: {wall:.1f} s, {count / wall:.1f} logs/s, load {os.getloadavg()[0]:.0f}")
    print(f"CPU {1000 * seconds / count:.1f} ms a log in all, {1000 * own / count:.1f} of the asking process")
    print("peak memory by quarter of the run, MB: all " + " ".join(f"{m:.0f}" for m in total), end="")
    print(", the asking process " + " ".join(f"{m:.0f}" for m in driver))
    print(f"results {written / count:.0f} bytes a log, index {index / count:.0f}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--part", type=int, default=2000, help="answers of a part are held in memory")
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "ddpclassify-fleet")
    args = parser.parse_args()
    logs = make(args.folder, args.count)
    part = ["--part", str(args.part)]
    if args.dask:
        with dask(args.jobs) as (extra, others):
            measure(logs, args.jobs, [*part, *extra], others, args.count)
    else:
        measure(logs, args.jobs, part, [], args.count)


if __name__ == "__main__":
    main()
