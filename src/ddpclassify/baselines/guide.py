"""The guide baseline: grep the first error of a log and look it up in a short troubleshooting table.

What a careful beginner does with the guide's four steps: skip results such as ``exit status 1``, take the first error
that names a type, compare the tracebacks, and read the likely cause from the quick look-up.
"""

from __future__ import annotations

import re
from itertools import islice

from ddpclassify.baselines import Answer

__all__ = ["first_errors", "predict"]

MAX_CHARS = 2000
_ERROR = re.compile(
    r"\b\w*(?:Error|Exception|Interrupt)\b|\berror:|\bNCCL\b.{0,40}(?i:error|fail|timeout|warn)|\b(?:FATAL|ERROR)\b"
    r"|out of memory|Watchdog caught"
)
# Results and noise, by the guide's first step.
_NOISE = re.compile(
    r"exit status|CalledProcessError|ChildFailedError|OMP_NUM_THREADS|already downloaded|Warning:|^\s*raise |NCCL INFO"
    r"|^\s*File \""
)
_RANK = re.compile(r"\[rank(\d+)\]|\[[Rr]ank:? (\d+)\]|\[default(\d+)\]:|^\s*(\d{1,4}): |\[\d+,(\d+)\]<std")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_PREFIX = re.compile(r"^(?:\s*(?:\[[^\]]{0,80}\]|\d{1,4})[: ]\s*)+")

# mark of the first error → category; the guide's cases first, then its quick look-up. First match wins.
TABLE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("cuda_oom", re.compile(r"CUDA out of memory|OutOfMemoryError")),
    ("network_error", re.compile(r"NCCL|[Ss]ocket [Tt]imeout|[Cc]onnection|timed out")),
    ("launch_config", re.compile(r"environment variable|unrecognized arguments|init_process_group")),
    ("code_error", re.compile(r"NameError|AttributeError|TypeError|SyntaxError|ModuleNotFoundError|ImportError")),
)


def predict(lines: list[str]) -> Answer:
    """Diagnose one log by its first error.

    >>> predict(["RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"])
    Answer(category='cuda_oom', scope='unknown', culprit_ranks=(), evidence_lines=(1,), confidence=0.9)
    """
    found = first_errors(lines)
    if not found:
        return Answer("no_failure", "none", confidence=0.5)
    number, first = found[0]
    alike = [line for _, line in found if _shape(line) == _shape(first)]
    # Only some ranks fail: the data differ between them. Many equal tracebacks: business code.
    named = next((name for name, mark in TABLE if mark.search(first)), "")
    category = named or ("code_error" if len(alike) > 1 else "data_error")
    ranks = sorted({rank for line in alike if (rank := _rank(line)) is not None})
    confidence = 0.9 if named else 0.5
    if len(alike) > 1 and len(ranks) != 1:
        return Answer(category, "all", (), (number,), confidence)
    if not ranks:
        return Answer(category, "unknown", (), (number,), confidence)
    reporter = _rank(first)
    return Answer(category, "ranks", (ranks[0] if reporter is None else reporter,), (number,), confidence)


def first_errors(lines: list[str]) -> list[tuple[int, str]]:
    """Return number and text of the lines that name an error and are no result or noise, as far as anyone reads."""
    errors = (
        (number, line[:MAX_CHARS])
        for number, line in enumerate(lines, 1)
        if _ERROR.search(line, 0, MAX_CHARS) and not _NOISE.search(line, 0, MAX_CHARS)
    )
    return list(islice(errors, 10_000))


def _shape(line: str) -> str:
    return _NUMBERS.sub("#", _PREFIX.sub("", line)).strip()


def _rank(line: str) -> int | None:
    found = _RANK.search(line)
    return int(next(group for group in found.groups() if group)) if found else None
