"""Which failures of two runs of a job count as the same."""

from __future__ import annotations

import pytest

from ddpclassify.events import extract
from ddpclassify.fold import fold
from ddpclassify.fold.likeness import likeness
from ddpclassify.ranks import attribute
from ddpclassify.read import read
from ddpclassify.types import Failure

RAISED = """[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/w/{file}.py", line {line}, in {function}
[rank{rank}]:     x = table[name]
[rank{rank}]: KeyError: '{name}'"""
WATCHDOG = (
    "[rank{rank}]:[E1102 08:23:11.3 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for "
    "600061 milliseconds before timing out."
)


def the_failure(text: str) -> Failure:
    (failure,) = fold(extract(attribute(read(text.split("\n"))))).failures
    return failure


def raised(rank: int = 0, line: int = 10, file: str = "a", function: str = "f", name: str = "x") -> Failure:
    return the_failure(RAISED.format(rank=rank, line=line, file=file, function=function, name=name))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("WARNING: failed to decode sample 17, skipped", "WARNING: failed to decode sample 4, skipped"),
        ("could not resume: No such file: 'runs/a/last.pt'", "could not resume: No such file: 'runs/b/last.pt'"),
        ("upload failed, host=alpha try=2", "upload failed, host=beta try=7"),
    ],
)
def test_lines_may_differ_in_names_and_values(one: str, two: str) -> None:
    assert likeness(the_failure(one)) == likeness(the_failure(two))


def test_lines_differ_by_what_they_say() -> None:
    assert likeness(the_failure("ERROR: cannot open the store")) != likeness(
        the_failure("ERROR: cannot read the store")
    )


def test_a_collective_is_the_same_however_far_the_run_has_come() -> None:
    def watchdog(rank: int, seq: int, numel: int, op: str = "ALLREDUCE") -> Failure:
        return the_failure(WATCHDOG.format(rank=rank, seq=seq, numel=numel, op=op))

    assert watchdog(1, 5, 10).signature != watchdog(2, 7, 30).signature
    assert likeness(watchdog(1, 5, 10)) == likeness(watchdog(2, 7, 30))
    assert likeness(watchdog(1, 5, 10)) != likeness(watchdog(1, 5, 10, "BROADCAST"))


def test_an_exception_is_the_same_in_the_same_function_only_and_for_the_same_name() -> None:
    assert likeness(raised(0, 10)) == likeness(raised(3, 99))
    for other in (raised(name="y"), raised(function="g"), raised(file="b")):
        assert likeness(raised()) != likeness(other)
