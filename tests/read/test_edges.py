"""What stands at the edges of reading: odd dates, folders without logs, standard input, lines of JSON that are none."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from ddpclassify.events import extract
from ddpclassify.ranks import attribute
from ddpclassify.ranks.clock import Clock
from ddpclassify.read import read
from ddpclassify.read.literals import LITERALS
from ddpclassify.read.sources import list_jobs
from ddpclassify.types import InputError


def test_the_scanner_is_fast_only_with_few_and_long_literals() -> None:
    assert len(LITERALS) <= 64
    assert all(len(word) >= 3 for word, _ in LITERALS)


def test_times_that_no_clock_shows_are_no_times() -> None:
    clock = Clock()
    midnight = clock.seconds({"h": "0", "y": "2026", "mo": "3", "d": "21"})
    assert midnight is not None
    assert clock.seconds({"h": "1", "md": "321"}) == midnight + 3600  # c10's way: month * 100 + day
    assert clock.seconds({"h": "1", "mon": "Mar", "d": "21", "s": "1,5"}) == midnight + 3601.5
    assert clock.seconds({"h": "24"}) is None
    assert clock.seconds({"h": "1", "md": "1399"}) is None
    assert clock.seconds({"h": None}) is None


def test_a_folder_of_jobs_must_be_one_and_hold_some(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no logs in this folder"):
        list_jobs(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        list_jobs(tmp_path / "gone")
    (tmp_path / "a.log").touch()
    assert list_jobs(tmp_path) == [tmp_path / "a.log"]


def test_standard_input_counts_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"one\nKeyError: 2\n"))))
    excerpt = read("-")
    assert (excerpt.source, excerpt.n_lines, excerpt.n_bytes) == ("-", 2, 16)


@pytest.mark.parametrize(
    "lines",
    [
        [
            '{"log": 3}',
            '{"log": "RuntimeError: x"',
            "[1]",
            '{"message": {"message": "x"}}',
            '{"message": {"extraInfo": 3}}',
        ],
        ["Traceback (most recent call last):", "Traceback (most recent call last):", "KeyError: 1"],
        ['  File "a.py", line 1, in f', "", "The above exception was the direct cause of the following exception:", ""],
        [
            "Traceback (most recent call last):",
            '  File "a.py", line 1, in f',
            "KeyError: 1KeyError: 1",
            "KeyError: KeyError: 2",
        ],
        ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>'] * 3
        + ["ValueError: aValueError: a"] * 2,
        ["Traceback (most recent call last):"] + ['  File "a.py", line 1, in f'] * 900 + ["RecursionError: deep"],
        ["Traceback (most recent call last):"] * 1200 + ['  File "a.py", line 1, in f', "KeyError: 1"],
    ],
    ids=["json", "empty", "linked", "glued", "together", "deep", "many"],
)
def test_what_only_looks_like_an_error_breaks_nothing(lines: list[str]) -> None:
    events = extract(attribute(read(lines))).events
    assert all(1 <= event.line.number <= len(lines) for event in events)
