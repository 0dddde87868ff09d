"""Times `ddpclassify predict` beside other ways to look through a log; prints tables of ratios.

Usage: ``python benchmarks/scan.py [--full] [--only TABLE]...``. Logs are made once, under the temporary folder.
Commands run in turn (A B C A B C …) as whole processes, files in the page cache, output to a file. A ratio is the
median of the rounds' ratios, so that what else the machine does at the time weighs on both sides; processor time (user
and system, children included) stands beside the clock's, for on a busy machine the clock tells little.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import biglog

from ddpclassify.read.literals import LITERALS

CACHE = Path(tempfile.gettempdir()) / "ddpclassify-benchmarks"
PREDICT = ("ddpclassify", "predict", "-q")
PYTHON = sys.executable
SLOW_MB = 4  # of a big log, for what takes minutes a gigabyte

LOOP = """
import re
find = re.compile({pattern!r}).search
with open({path!r}, "rb") as log:
    print(sum(find(line) is not None for line in log.read({size}).splitlines()))
"""
DRAIN = """
import logging, sys, time
from drain3 import TemplateMiner
from drain3.template_miner_config import TemplateMinerConfig
logging.disable()
miner = TemplateMiner(config=TemplateMinerConfig())
with open({path!r}, errors="replace") as log:
    for line in log.read({size}).splitlines():
        miner.add_log_message(line)
"""


@dataclass
class Run:
    """Seconds of each round, on the clock and of processor time, and the largest peak memory in MB."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def once(command: Sequence[str], run: Run) -> None:
    """Run a program to its end; that grep finds nothing is no error."""
    with (CACHE / "output").open("wb") as output:  # into /dev/null, grep and rg would stop at the first hit
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)[:200]} failed with {process.returncode}")
    run.seconds.append(time.perf_counter() - start)
    run.cpu.append(usage.ru_utime + usage.ru_stime)
    run.peak = max(run.peak, usage.ru_maxrss / 1024)


def race(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, Run]:
    """Run all commands in turn, `rounds` times after one unmeasured round."""
    runs = {name: Run() for name in commands}
    for command in commands.values():
        once(command, Run())
    for _ in range(rounds):
        for name, command in commands.items():
            once(command, runs[name])
    return runs


def show(title: str, runs: Mapping[str, Run], size_mb: float = 0.0, sizes: Mapping[str, float] | None = None) -> None:
    """Print one table: seconds, speed, peak memory, and our time as a multiple of each."""
    ours = next(iter(runs.values()))
    print(f"\n### {title}\n\n| command | s | CPU s | MB/s | peak MB | ours / it | CPU / CPU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name, run in runs.items():
        share = (sizes or {}).get(name, size_mb) / size_mb if size_mb else 1.0
        speed = f"{size_mb * share / statistics.median(run.seconds):,.0f}" if size_mb else ""
        times = " | ".join(f"{statistics.median(each):.3f}" for each in (run.seconds, run.cpu))
        ratios = " | ".join(f"{share * x:.3g}" for x in (ratio(ours.seconds, run.seconds), ratio(ours.cpu, run.cpu)))
        print(f"| {name} | {times} | {speed} | {run.peak:.0f} | {ratios} |", flush=True)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the rounds' ratios."""
    return statistics.median(a / max(b, 1e-3) for a, b in zip(ours, theirs, strict=True))


def scan_table(title: str, log: Path, words: Path, rounds: int) -> None:
    """Print what others would run on a log, with the same literals where they take any."""
    pattern = b"|".join(re.escape(word) for word, _ in LITERALS)
    slow = {"path": str(log), "size": SLOW_MB * 1_000_000}
    loop, drain = f"Python, re on each line, first {SLOW_MB} MB", f"Drain3, first {SLOW_MB} MB"
    commands = {
        "ddpclassify predict": (*PREDICT, str(log)),
        "rg -F, the same literals": ("rg", "-F", "-n", "-f", str(words), str(log)),
        "grep -E 'Error\\|Exception\\|Traceback'": ("grep", "-n", "-E", "Error|Exception|Traceback", str(log)),
        "wc -l": ("wc", "-l", str(log)),
        loop: (PYTHON, "-c", LOOP.format(pattern=pattern, **slow)),
        drain: (PYTHON, "-c", DRAIN.format(**slow)),
    }
    show(title, race(commands, rounds), log.stat().st_size / 1e6, {loop: SLOW_MB, drain: SLOW_MB})


def made(name: str, megabytes: float, ranks: int = 64, noise: float = 0.0, tracebacks: int = 64, seed: int = 0) -> Path:
    """Return a log, written if need be; by a process of its own, for a child's peak memory begins with its parent's."""
    log = CACHE / name
    if not log.exists():
        arguments = map(str, (log, megabytes, ranks, noise, tracebacks, seed))
        subprocess.run([PYTHON, str(Path(__file__).with_name("biglog.py")), *arguments], check=True)
    return log


def scans(full: bool, words: Path) -> None:
    """Print the tables of one big log: quiet, noisy, compressed, piped."""
    big, small = (2000, 300) if full else (100, 100)
    quiet = made(f"quiet-{big}.log", big)
    scan_table(f"{big} MB, 64 ranks", quiet, words, 5 if full else 3)
    noisy = made(f"noisy-{small}.log", small, 8, 0.3)
    scan_table(f"{small} MB, 8 ranks, 30 % of the lines say error or warning", noisy, words, 5 if full else 3)
    packed, plain = CACHE / f"quiet-{small}.log.gz", made(f"quiet-{small}.log", small)
    if not packed.exists():
        subprocess.run(["gzip", "-k", "-n", "-6", str(plain)], check=True)
    pipe = f"cat {plain} | "
    show(f"{small} MB, compressed and piped", race({
        "ddpclassify predict, .gz": (*PREDICT, str(packed)),
        "rg -z, .gz": ("rg", "-z", "-F", "-n", "-f", str(words), str(packed)),
        "ddpclassify predict, pipe": ("sh", "-c", pipe + " ".join(PREDICT)),
        "rg, pipe": ("sh", "-c", f"{pipe} rg -F -n -f {words}"),
    }, 5 if full else 3), small)  # fmt: skip


def start(full: bool, words: Path) -> None:
    """Print the table of start-up."""
    log = made("start.log", 0.045, 8, tracebacks=8)
    case = Path(__file__).parents[1] / "tests" / "cases" / "oom-one-of-eight-then-watchdogs.log"
    show(f"Start-up, log of {log.stat().st_size / 1000:.0f} KB", race({
        "ddpclassify predict": (*PREDICT, str(log)),
        "ddpclassify predict, a case of 5 KB": (*PREDICT, str(case)),
        "ddpclassify --version": ("ddpclassify", "--version"),
        "python -c 'import numpy'": (PYTHON, "-c", "import numpy"),
        "python -c 'import click'": (PYTHON, "-c", "import click"),
        "python -c pass": (PYTHON, "-c", "pass"),
    }, 15))  # fmt: skip


def growth(full: bool, words: Path) -> None:
    """Print how time and memory grow with bytes, ranks and tracebacks."""
    print("\n### Growth\n\n| MB | ranks | tracebacks | s | peak MB |\n| ---: | ---: | ---: | ---: | ---: |")
    rows: list[tuple[float, int, int]] = [(mb, 64, 64) for mb in (1, 10, 100, *([1000] if full else []))]
    rows += [(10, ranks, ranks) for ranks in (8, 64, 512, 4096)]
    rows += [(10, 64, tracebacks) for tracebacks in (1, 100, 10_000)]
    for mb, ranks, tracebacks in rows:
        log = made(f"growth-{mb}-{ranks}-{tracebacks}.log", mb, ranks, tracebacks=tracebacks)
        run = race({"": (*PREDICT, str(log))}, 3)[""]
        print(f"| {mb} | {ranks} | {tracebacks} | {run.median:.2f} | {run.peak:.0f} |")


def batch(full: bool, words: Path) -> None:
    """Print the table of many logs."""
    count = 2000 if full else 200
    folder = CACHE / f"many-{count}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        part.mkdir(exist_ok=True)
        for number in range(count):
            biglog.write(part / f"job{number}.log", 0.045, ranks=8, tracebacks=8, seed=number)
        part.rename(folder)
    runs = race({
        "all cores": (*PREDICT, "--each", str(folder)),
        "--jobs 1": (*PREDICT, "--each", str(folder), "--jobs", "1"),
    }, 1 if full else 3)  # fmt: skip
    show(f"{count} logs of 50 KB, {os.cpu_count()} cores", runs)


TABLES: dict[str, Callable[[bool, Path], None]] = {"scans": scans, "start": start, "growth": growth, "batch": batch}


def main() -> None:
    """Print all tables, or those asked for."""
    parser = argparse.ArgumentParser(description="Compare ddpclassify with other ways to look through a log.")
    parser.add_argument("--full", action="store_true", help="2 GB and 2,000 logs (takes some ten minutes)")
    parser.add_argument("--only", choices=TABLES, action="append", help="print this table; may be repeated")
    options = parser.parse_args()
    if shutil.which("rg") is None or find_spec("drain3") is None:
        parser.error("needs ripgrep (`rg`) and `pip install drain3`")
    CACHE.mkdir(exist_ok=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program finds its modules compiled
    words = CACHE / "literals"
    words.write_bytes(b"".join(word + b"\n" for word, _ in LITERALS))
    rg = subprocess.run(["rg", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"Python {platform.python_version()}, {rg}, {os.cpu_count()} cores, load {load}; {len(LITERALS)} literals")
    for name in options.only or TABLES:
        TABLES[name](options.full, words)


if __name__ == "__main__":
    main()
