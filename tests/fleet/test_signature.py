"""The signature of an issue: what changes from run to run does not count, what tells failures apart does."""

from __future__ import annotations

from ddpclassify.events import extract
from ddpclassify.fleet.signature import signed
from ddpclassify.fold import fold
from ddpclassify.ranks import attribute
from ddpclassify.read import read

BUG = """[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "{path}/train.py", line {line}, in step
[rank{rank}]:     loss = model(batch)
[rank{rank}]: {error}
"""
USUAL = {"rank": 1, "path": "/home/a", "line": 20, "error": "RuntimeError: shape [3, 4] does not fit on node1"}


def signature(text: str) -> str:
    folded = fold(extract(attribute(read(text.splitlines()))))
    return signed(folded.failures[0], set(folded.events.log.facts.hosts) | {"node1", "gpu-b.example"})[0]


def bug(**changed: object) -> str:
    return signature(BUG.format(**{**USUAL, **changed}))


def test_ranks_paths_lines_numbers_and_hosts_do_not_count() -> None:
    usual = bug()
    assert bug(rank=7) == usual
    assert bug(path="/scratch/b/c") == usual
    assert bug(line=4711) == usual
    assert bug(error="RuntimeError: shape [8, 16] does not fit on gpu-b.example") == usual


def test_another_error_message_or_function_is_another_issue() -> None:
    found = {
        bug(),
        bug(error="ValueError: shape [3, 4] does not fit on node1"),
        bug(error="RuntimeError: the key does not fit on node1"),
        signature(BUG.format(**USUAL).replace("in step", "in validate")),
    }
    assert len(found) == 4


def test_sequence_numbers_do_not_count_but_the_collective_does() -> None:
    line = (
        "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={seq}, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds"
    )
    assert signature(line.format(seq=3, op="ALLREDUCE")) == signature(line.format(seq=99, op="ALLREDUCE"))
    assert signature(line.format(seq=3, op="ALLREDUCE")) != signature(line.format(seq=3, op="BROADCAST"))


def test_signatures_stored_by_older_versions_keep_their_meaning() -> None:
    """When this fails, stored issues would fall apart: name a new scheme, do not change the value alone."""
    assert bug() == "v1-e2f63398cc32"
