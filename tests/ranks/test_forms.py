"""Every row of the prefix table matches its example and what it must leave alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpclassify.ranks import attribute
from ddpclassify.ranks.forms import FORMS, Form, by_start, kind_of
from ddpclassify.types import Excerpt, Line, RawLine, SourceFile

# What may follow a prefix; a form's lookahead asks for one of these.
FOLLOWERS = ("text", "INFO text", "NCCL INFO x", "torch._dynamo: x", "[Rank 3] x", "kernel: x")


def lines_of(*texts: str) -> tuple[Line, ...]:
    raw = tuple(RawLine(0, i, t) for i, t in enumerate(texts, 1))
    return attribute(Excerpt("x", (SourceFile("x"),), raw, len(raw), 1)).lines


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_form_matches_its_example(form: Form) -> None:
    ends = {m.end() for f in FOLLOWERS if (m := form.regex.match(form.example + f))}
    assert len(form.example) in ends
    assert form in by_start()[kind_of(form.example[0])]


@pytest.mark.parametrize(
    ("text", "rank", "local", "host", "pid", "rest"),
    [
        ("[rank11]: Traceback (most recent call last):", 11, None, None, None, "Traceback (most recent call last):"),
        ("[rank3]:[rank11]: ValueError: x", 11, 3, None, None, "ValueError: x"),
        ("[default3]:hello", 3, 3, None, None, "hello"),
        ("[1,3]<stderr>:hello", 3, None, None, None, "hello"),
        ("[1,mpirank:3,algo-1]<stdout>:hello", 3, None, "algo-1", None, "hello"),
        ("Tue Dec  1 12:00:00 2026[1,3]<stdout>:hello", 3, None, None, None, "hello"),
        ("node7:4711:4820 [3] NCCL INFO Channel 00", 3, 3, "node7", 4711, "NCCL INFO Channel 00"),
        ("[rank: 2] Received SIGTERM: 15", 2, None, None, None, "Received SIGTERM: 15"),
        ("[2026-12-01 12:00:00,123] [INFO] [logging.py:128:log_dist] [Rank 0] go", 0, None, None, None, "go"),
        ("\x1b[36m(RayTrainWorker pid=1, ip=10.0.0.3)\x1b[0m [rank1]:[E1201 12:00:00.123456789 ProcessGroupNCCL.cpp:616] "
         "[Rank 1] Watchdog caught x", 1, None, "10.0.0.3", 1, "[Rank 1] Watchdog caught x"),
        ("2026-12-01T12:00:00.123Z stderr F [rank4]: KeyError: 'a'", 4, None, None, None, "KeyError: 'a'"),
        ("[pod/job-worker-2/pytorch] hello", None, None, "job-worker-2", None, "hello"),
        ("E1201 12:00:00.123456 4711 torch/distributed/elastic/api.py:874] failed (exitcode: 1)", None, None, None, None, "failed (exitcode: 1)"),
        ("[rank3]:[local1]: 2026-12-01T12:00:00.123 node7 | hello", 3, 1, "node7", None, "hello"),
        ("[default1]:[rank3]:[local1]: 2026-12-01T12:00:00.123 gpu-a | [rank3]: KeyError: 'a'", 3, 1, "gpu-a", None, "KeyError: 'a'"),
        ("loss at rank 3 was high", None, None, None, None, "loss at rank 3 was high"),
        ("3\tnot a label when it stands alone", None, None, None, None, "3\tnot a label when it stands alone"),
        ("3: not a label when it stands alone", None, None, None, None, "3: not a label when it stands alone"),
    ],
)  # fmt: skip
def test_stacks_of_prefixes(
    text: str, rank: int | None, local: int | None, host: str | None, pid: int | None, rest: str
) -> None:
    from ddpclassify.read.decode import decode

    (line,) = lines_of(decode(text.encode()))
    assert (line.rank, line.local_rank, line.host, line.pid, line.text) == (rank, local, host, pid, rest)


@pytest.mark.parametrize("label", ["{task}: step {i}", "{task}\tstep {i}", "trainer/{task} step {i}"])
def test_weak_labels_are_believed_when_the_log_is_full_of_them(label: str) -> None:
    lines = lines_of(*(label.format(task=task, i=i) for i in range(6) for task in range(4)))
    assert [(line.rank, line.text[:5]) for line in lines] == [(rank, "step ") for rank in range(4)] * 6


def test_a_few_of_them_are_not() -> None:
    lines = lines_of(*(f"{i}\tstep" for i in range(2)), *(f"loss {i}" for i in range(8)))
    assert {line.rank for line in lines} == {None}


def test_a_pid_seen_beside_a_rank_has_it_everywhere() -> None:
    lines = lines_of("(RayTrainWorker pid=77) [rank2]: ValueError: x", "(RayTrainWorker pid=77) cleaning up")
    assert [line.rank for line in lines] == [2, 2]


@given(st.text(max_size=300))
def test_no_text_breaks_the_attribution(text: str) -> None:
    (line,) = lines_of(text)
    assert line.raw.endswith(line.text) or text.startswith('{"')


def test_a_shippers_program_tag_is_no_part_of_the_line() -> None:
    lines = lines_of(*(f"Mar 31 19:39:{n:02d} hgx-0-13 train[654263]:     return f(x, {n})" for n in range(20)))
    assert {line.text[:14] for line in lines} == {"    return f(x"}
    assert {(line.host, line.pid) for line in lines} == {("hgx-0-13", 654263)}


def test_a_host_with_a_containers_hash_is_a_host() -> None:
    lines = lines_of(*(f"2025-02-26T15:02:{n:02d}Z cn038-b2b64b Traceback (most recent call last):" for n in range(20)))
    assert {(line.host, line.text) for line in lines} == {("cn038-b2b64b", "Traceback (most recent call last):")}


@pytest.mark.parametrize(
    ("row", "rank", "text"),
    [
        ({"log": "[rank3]: KeyError: 1\n", "stream": "stderr", "time": "2026-12-01T12:00:00.123Z"}, 3, "KeyError: 1"),
        ({"message": "KeyError: 1", "rank": 3, "level": "ERROR"}, 3, "KeyError: 1"),
        ({"msg": "KeyError: 1", "rank": True}, None, "KeyError: 1"),
        ({"log": "a\n\rb\x1b[2J\u202e\x9bc\ud800"}, None, "a\nbc?"),
        ({"log": "x", "rank": 10**30}, None, "x"),
        ({"log": 3}, None, None),
        ([1], None, None),
    ],
)
def test_a_shippers_json_is_taken_out_of_its_row_and_harmless(row: object, rank: int | None, text: str | None) -> None:
    raw = json.dumps(row)
    (line,) = lines_of(raw)
    assert (line.rank, line.text) == (rank, raw if text is None else text)
