"""A log is hostile input: whatever it holds, the answer comes, in bounded time."""

from __future__ import annotations

import random
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ddpclassify import load_model
from ddpclassify.report import text_report

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.log"))
LINES = sorted({line for path in CASES for line in path.read_text("utf-8").split("\n")})


def check(lines: list[str] | list[bytes]) -> None:
    diagnosis = load_model().diagnose(lines)
    text = text_report(diagnosis, verbose=True)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert 0 <= diagnosis.confidence <= 1
    assert all(1 <= e["line"] <= max(1, diagnosis.lines) for e in diagnosis.evidence)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=30))
def test_any_bytes(lines: list[bytes]) -> None:
    check(lines)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=80), st.integers(0, 200))
def test_real_lines_in_any_order_and_cut_anywhere(lines: list[str], cut: int) -> None:
    check([line[cut:] if i % 3 == 0 else line for i, line in enumerate(lines)])


def test_a_log_cut_at_any_line() -> None:
    lines = CASES[0].read_text("utf-8").split("\n")
    for end in range(0, len(lines), 3):
        check(lines[:end])


def test_time_grows_with_the_lines_not_their_square() -> None:
    rng = random.Random(0)
    base = [
        "Traceback (most recent call last):",
        '  File "t.py", line 1, in f',
        "[rank3]: step 5 loss 0.2",
        "KeyError: 'x'",
        "(" * 500,
    ]

    def seconds(n: int) -> float:
        lines = rng.choices(base, k=n)
        start = time.perf_counter()
        check(lines)
        return time.perf_counter() - start

    seconds(100)
    few, many = min(seconds(2000) for _ in range(3)), min(seconds(8000) for _ in range(2))
    assert many < 12 * few  # 4 times the lines; the square would be 16
