"""The guide baseline on small invented logs."""

from __future__ import annotations

import pytest

from ddpclassify.baselines import Answer
from ddpclassify.baselines.guide import predict


def test_the_guides_own_example() -> None:
    log = ["Files already downloaded and verified", *["NameError: name 'c' is not defined"] * 3]
    log += ["subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1."]
    assert predict(log) == Answer("code_error", "all", (), (2,), 0.9)


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("[rank1]: RuntimeError: CUDA out of memory. Tried to allocate 2 GiB", "cuda_oom"),
        ("[rank1]: RuntimeError: NCCL error: unhandled system error", "network_error"),
        ("[rank1]: NameError: name 'c' is not defined", "code_error"),
        ("[rank1]: ValueError: bad sample", "data_error"),  # "only some ranks fail"
    ],
)
def test_look_up(line: str, category: str) -> None:
    got = predict(["[rank0]: step 1", line])
    assert (got.category, got.scope, got.culprit_ranks, got.evidence_lines) == (category, "ranks", (1,), (2,))


def test_many_equal_tracebacks_are_business_code() -> None:
    got = predict([f"[rank{rank}]: ValueError: no {rank}" for rank in range(3)])
    assert (got.category, got.scope) == ("code_error", "all")


def test_nothing_to_grep() -> None:
    assert predict(["step 1", "UserWarning: slow"]).category == "no_failure"
    assert predict([]).category == "no_failure"
