"""What varies by rank folds; different bugs do not."""

from __future__ import annotations

import pytest

from ddpclassify.events import extract
from ddpclassify.fold import fold
from ddpclassify.fold.normalise import MASKS, skeleton
from ddpclassify.ranks import attribute
from ddpclassify.read import read
from ddpclassify.types import Excerpt, Failure, RawLine, SourceFile


def failures_of(*lines: str) -> tuple[Failure, ...]:
    return fold(extract(attribute(read(lines)))).failures


def traceback(rank: int, message: str, line: int = 7) -> list[str]:
    p = f"[rank{rank}]: "
    return [
        p + "Traceback (most recent call last):",
        f'{p}  File "/home/a/train.py", line {line}, in step',
        p + message,
    ]


@pytest.mark.parametrize(("name", "pattern", "replacement", "one", "other"), MASKS, ids=[m[0] for m in MASKS])
def test_masks_make_their_pairs_equal(name: str, pattern: str, replacement: str, one: str, other: str) -> None:
    assert skeleton(one) == skeleton(other)


def test_ranks_that_differ_only_in_numbers_fold() -> None:
    (failure,) = failures_of(
        *traceback(0, "RuntimeError: CUDA out of memory. GPU 0 has 2.5 GiB at 0x7f00"),
        *traceback(3, "RuntimeError: CUDA out of memory. GPU 3 has 31 MiB at 0x7fab"),
    )
    assert (failure.ranks, failure.count, failure.first.line.number) == ((0, 3), 2, 3)


def test_two_bugs_on_one_line_do_not_fold() -> None:
    one, two = failures_of(
        *traceback(0, "NameError: name 'a' is not defined"), *traceback(1, "NameError: name 'b' is not defined")
    )
    assert one.signature != two.signature


def test_signatures_do_not_depend_on_rank_line_or_path() -> None:
    (one,) = failures_of(*traceback(0, "KeyError: 'x'"))
    (two,) = failures_of("noise", *(t.replace("/home/a", "/mnt/b") for t in traceback(5, "KeyError: 'x'")))
    assert one.signature == two.signature


def test_a_signature_explains_itself() -> None:
    (failure,) = failures_of(*traceback(0, "KeyError: 'x'"))
    assert "exception: KeyError" in failure.explanation
    assert "user frame: train.py step" in failure.explanation


def test_a_failure_after_which_training_goes_on_has_recovered() -> None:
    (failure,) = failures_of(
        *traceback(0, "OSError: skipped"),
        "[rank0]: step 5 loss 0.2",
        "[rank0]: step 6 loss 0.2",
        "[rank0]: step 7 loss 0.2",
    )
    assert failure.recovered


def test_no_more_than_so_many_failures_are_told_apart() -> None:
    letters = "ghijklmnopqrstuvwxyz"
    said = [f"[rank0]: RuntimeError: {a}{b}{c}" for a in letters for b in letters for c in letters]
    lines = tuple(RawLine(0, n, text) for n, text in enumerate(said, 1))  # reading would leave some out already
    log = Excerpt("x", (SourceFile("x"),), lines, len(lines), 1)
    assert len(fold(extract(attribute(log))).failures) == 4096
