"""The answer for a terminal."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from ddpclassify.api import load_model
from ddpclassify.page import axis, markup
from ddpclassify.report import differences, stack, text_report, words
from ddpclassify.report.words import columns, rank_words, shorten, wrap

CASES = Path(__file__).parent.parent / "cases"
OOM = CASES / "oom-one-of-eight-then-watchdogs.log"
NAME = CASES / "nameerror-three-ranks-interleaved.log"
SILENT = CASES / "silent-rank-of-eight.log"


def told(path: Path, verbose: bool = False, quiet: bool = False) -> str:
    folded, diagnosis = load_model().explain(path)
    return text_report(diagnosis, verbose, quiet, folded)


@pytest.mark.parametrize("module", [words, stack, differences, markup, axis])
def test_examples(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("path", sorted(CASES.glob("*.log")), ids=lambda p: p.stem)
def test_fits_80_columns_and_reads_from_the_top(path: Path) -> None:
    text = told(path)
    assert max(map(columns, text.splitlines())) <= 80
    labels = [line[2:11].strip() for line in text.splitlines()[1:] if line[2:11].strip()]
    order = ["who", "proof", "where", "differ", "then", "progress", "check", "do", "retry", "missing"]
    shown = [label for label in labels if label in order]
    assert shown == [label for label in order if label in shown]


def test_the_users_frame_comes_first_and_library_frames_are_folded() -> None:
    lines = told(OOM).splitlines()
    where = next(i for i, line in enumerate(lines) if line.startswith("  where"))
    assert "attn.py:77 in forward" in lines[where]
    assert "> w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)" in lines[where + 1]
    assert "called from train.py:151 in main" in lines[where + 2]
    assert "module.py:1751" not in told(OOM)
    assert "module.py:1751 in _wrapped_call_impl [torch]" in told(OOM, verbose=True)


def test_equal_proofs_are_told_once_with_all_their_ranks() -> None:
    assert "proof    lines 20, 21, 24: NameError: name 'c' is not defined" in told(NAME)
    assert told(NAME).count("NameError") == 1


def test_a_silent_culprit_is_called_silent() -> None:
    assert "rank 3 of 8 reports no failure of its own; the others" in told(SILENT)


def test_all_ranks_are_counted_where_the_log_tells_how_many() -> None:
    assert "all 3 ranks failed the same way" in told(NAME)


def test_quiet_is_one_line_and_verbose_says_more() -> None:
    assert "\n" not in told(OOM, quiet=True)
    assert told(OOM, quiet=True).endswith(", rank 5")
    assert len(told(OOM, verbose=True)) > len(told(OOM))


def test_a_report_without_the_folded_log_still_names_the_place() -> None:
    assert "attn.py:77 in forward" in text_report(load_model().diagnose(OOM))


def collective(rank: int, op: str, shape: int) -> str:
    return (
        f"[rank{rank}]:[E1102 08:23:11.0{rank}3456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum=88, OpType={op}, NumelIn={shape}, NumelOut={shape}, "
        f"Timeout(ms)=600000) ran for 60003{rank} milliseconds before timing out."
    )


def test_what_differs_between_ranks_stands_side_by_side() -> None:
    lines = [collective(r, "ALLREDUCE", 1049600) if r != 2 else collective(r, "BROADCAST", 1) for r in range(4)]
    folded, diagnosis = load_model().explain(lines)
    shown = text_report(diagnosis, folded=folded)
    assert (
        "  differ                 OpType     NumelIn  NumelOut\n"
        "           ranks 0-1, 3  ALLREDUCE  1049600  1049600\n"
        "           rank 2        BROADCAST  1        1\n"
    ) in shown
    failure = next(f for f in folded.failures if f.kind == "watchdog_timeout")
    table = differences.differences(failure, folded.failures)
    assert table is not None
    assert table.names == ("OpType", "NumelIn", "NumelOut")
    assert table.rows == (((0, 1, 3), ("ALLREDUCE", "1049600", "1049600")), ((2,), ("BROADCAST", "1", "1")))


def test_ranks_that_say_the_same_do_not_differ() -> None:
    folded, _ = load_model().explain([collective(r, "ALLREDUCE", 4) for r in range(8)])
    assert all(differences.differences(f, folded.failures) is None for f in folded.failures)


def test_shortening_keeps_the_exception_and_the_numbers() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. See the manual for many more words. GPU 5 has 3.02 GiB free."
    short = shorten(text, 90)
    assert len(short) <= 90
    assert short.startswith("torch.OutOfMemoryError: CUDA out of memory.")
    assert "3.02 GiB" in short
    assert len(shorten("x" * 1000, 50)) <= 50
    assert len(shorten("word " * 1000, 50)) <= 50


def test_wide_characters_take_two_columns() -> None:
    assert columns("内存") == 4
    assert all(columns(line) <= 20 for line in wrap("显存不足" * 30 + " e\u0301" * 40, 20))


def test_long_lists_of_ranks_are_counted() -> None:
    assert rank_words([]) == ""
    assert len(rank_words(range(0, 8000, 2))) < 100


def test_nothing_but_printable_characters(tmp_path: Path) -> None:
    path = tmp_path / "evil\x1b[31m\u202e.log"
    path.write_bytes(
        b'[rank0]: Traceback (most recent call last):\n[rank0]:   File "/t\xe2\x80\xae.py", line 1, in f\x1b]0;x\x07\n'
        b"[rank0]:     boo\x9b31m()\n[rank0]: ValueError: \x1b[2J\xe2\x80\xaeboo\x9b31m\n"
    )
    args = [sys.executable, "-m", "ddpclassify", "predict", "-v", str(path)]
    out = subprocess.run(args, capture_output=True, check=True).stdout.decode()
    assert all(c.isprintable() or c == "\n" for c in out)
