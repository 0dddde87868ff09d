"""Tracebacks of every kind come out whole, also when ranks write into each other."""

from __future__ import annotations

import textwrap

import pytest

from ddpclassify.events import extract
from ddpclassify.events.statements import STATEMENTS, Statement, match
from ddpclassify.ranks import attribute
from ddpclassify.read import read
from ddpclassify.types import Event, Events


def events_of(text: str) -> Events:
    return extract(attribute(read(textwrap.dedent(text).strip("\n").split("\n"))))


def exceptions(text: str) -> list[Event]:
    return [e for e in events_of(text).events if e.kind == "traceback"]


@pytest.mark.parametrize("row", STATEMENTS, ids=lambda r: f"{r.kind}-{r.word}")
def test_statement_row_matches_its_example_first(row: Statement) -> None:
    found = match(row.example)
    assert found is not None
    assert found[0] is row


def test_a_plain_traceback() -> None:
    (event,) = exceptions("""
        Traceback (most recent call last):
          File "train.py", line 9, in <module>
            main()
          File "/opt/conda/lib/python3.10/site-packages/torch/x.py", line 3, in f
            raise ValueError
        ValueError: bad thing
    """)
    assert (event.exception, event.text, event.line.number) == ("ValueError", "bad thing", 6)
    assert [(f.function, f.user) for f in event.frames] == [("<module>", True), ("f", False)]


def test_interleaved_equal_tracebacks_are_counted() -> None:
    found = exceptions("""
        Traceback (most recent call last):
        Traceback (most recent call last):
          File "t.py", line 9, in <module>
            f(c)
          File "t.py", line 9, in <module>
            f(c)
        NameError: name 'c' is not defined
        NameError: name 'c' is not defined
    """)
    assert [e.text for e in found] == ["name 'c' is not defined"] * 2


def test_two_processes_on_one_line() -> None:
    (event,) = exceptions("""
        Traceback (most recent call last):
        Traceback (most recent call last):
          File "t.py", line 9, in <module>
            f(c)
          File "t.py", line 9, in <module>
            f(c)
        AttributeErrorAttributeError: : no attribute 'x'no attribute 'x'
    """)
    assert (event.exception, event.count) == ("AttributeError", 2)


def test_a_chain_has_its_innermost_first() -> None:
    inner, outer = exceptions("""
        Traceback (most recent call last):
          File "a.py", line 1, in f
            g()
        KeyError: 'x'

        During handling of the above exception, another exception occurred:

        Traceback (most recent call last):
          File "b.py", line 2, in <module>
            f()
        RuntimeError: no x
    """)
    assert (inner.exception, inner.chained, outer.exception, outer.chained) == (
        "KeyError",
        "inner",
        "RuntimeError",
        "outer",
    )


def test_a_data_loader_worker_is_the_inner_one() -> None:
    outer, inner = exceptions("""
        Traceback (most recent call last):
          File "train.py", line 9, in <module>
            for batch in loader:
        OSError: Caught OSError in DataLoader worker process 1.
        Original Traceback (most recent call last):
          File "data.py", line 3, in __getitem__
            return open(p)
        OSError: image file is truncated
    """)
    assert (outer.chained, inner.chained, inner.text) == ("outer", "inner", "image file is truncated")


def test_a_lower_case_exception_closes_its_traceback() -> None:
    first, second = exceptions("""
        Traceback (most recent call last):
          File "a.py", line 1, in f
            g()
        socket.gaierror: [Errno -3] Temporary failure in name resolution

        During handling of the above exception, another exception occurred:

        Traceback (most recent call last):
          File "b.py", line 2, in <module>
            f()
        OSError: offline
    """)
    assert (first.exception, second.exception) == ("socket.gaierror", "OSError")


def test_prefixed_and_bare_streams_do_not_mix() -> None:
    found = exceptions("""
        [rank0]: Traceback (most recent call last):
        [rank1]: Traceback (most recent call last):
        [rank0]:   File "t.py", line 1, in a
        [rank1]:   File "t.py", line 2, in b
        [rank1]: IndexError: list index out of range
        [rank0]: KeyError: 'k'
    """)
    assert {(e.rank, e.exception, e.frames[0].function) for e in found} == {
        (0, "KeyError", "a"),
        (1, "IndexError", "b"),
    }


def test_a_syntax_error_has_no_function() -> None:
    (event,) = exceptions("""
          File "train.py", line 12
            x = = 3
                ^
        SyntaxError: invalid syntax
    """)
    assert (event.exception, event.frames[0].line) == ("SyntaxError", 12)


def test_an_exception_group() -> None:
    found = exceptions("""
          + Exception Group Traceback (most recent call last):
          |   File "t.py", line 3, in <module>
          |     run()
          | ExceptionGroup: many (2 sub-exceptions)
          +-+---------------- 1 ----------------
            | Traceback (most recent call last):
            |   File "t.py", line 1, in f
            |     g()
            | ValueError: one
            +------------------------------------
    """)
    assert "ValueError" in {e.exception for e in found}


def test_a_rich_box() -> None:
    (event,) = exceptions("""
        ╭───────────────────── Traceback (most recent call last) ──────────────────────╮
        │ /home/al/train.py:88 in main                                                 │
        │                                                                              │
        │ ❱ 88 │   loss = step(x)                                                      │
        ╰──────────────────────────────────────────────────────────────────────────────╯
        ValueError: bad
    """)
    assert (event.exception, event.frames[0].function) == ("ValueError", "main")


def test_a_spawned_child_has_its_index_as_rank() -> None:
    _, child = exceptions("""
        Traceback (most recent call last):
          File "main.py", line 5, in <module>
            mp.spawn(worker)
        torch.multiprocessing.spawn.ProcessRaisedException:

        -- Process 2 terminated with the following error:
        Traceback (most recent call last):
          File "main.py", line 3, in worker
            x[9]
        IndexError: index 9 is out of range
    """)
    assert (child.rank, child.exception) == (2, "IndexError")


def test_a_cut_traceback_is_kept() -> None:
    events = events_of('Traceback (most recent call last):\n  File "t.py", line 1, in f').events
    assert [e.kind for e in events] == ["cut_traceback"]


def test_an_error_glued_to_a_progress_bar() -> None:
    (event,) = exceptions("""
        50%|##  | 5/10 [00:01<00:01,  1.2it/s]Traceback (most recent call last):
          File "t.py", line 1, in f
        ValueError: x
    """)
    assert event.exception == "ValueError"


def test_an_elastic_error_file() -> None:
    text = (
        '{"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": '
        '"Traceback (most recent call last):\\n  File \\"t.py\\", line 1, in f\\n    g()\\nValueError: x\\n", "timestamp": "1764590400"}}}'
    )
    (event,) = exceptions(text)
    assert (event.exception, event.line.number) == ("ValueError", 1)


def test_a_traceback_in_one_row_of_a_shippers_json() -> None:
    row = '{"message": "Traceback (most recent call last):\\n  File \\"t.py\\", line 1, in f\\n    g()\\nValueError: x\\u001b[2J\\ud800\\n", "rank": 3}'
    (event,) = exceptions("ok\n" + row)
    assert (event.exception, event.text, event.rank, event.line.number) == ("ValueError", "x?", 3, 2)
    assert [frame.line for frame in event.frames] == [1]


def test_what_is_no_elastic_error_file_is_none() -> None:
    for text in ("{", '{"a":' * 1500, "[1]", '{"message": 1}', '{"message": {"extraInfo": {"py_callstack": 3}}}'):
        assert not exceptions(text + ' "py_callstack"'), text


def test_harmless_words_are_no_events() -> None:
    assert not events_of("""
        Setting OMP_NUM_THREADS environment variable for each process to be 1 in default
        /a/b.py:3: FutureWarning: this will raise an error in future
        [W socket.cpp:601] [c10d] The client socket has failed to connect to [::1]:29500 (errno: 97 - Address family not supported by protocol).
        epoch 1 step 10 loss 0.3
    """).events


def test_progress_and_ends() -> None:
    events = events_of("""
        [rank0]: step 10 loss 0.3
        [rank1]: step 9 loss 0.3
        Training complete
    """)
    assert events.progress == {0: (10, 1), 1: (9, 2)}
    assert [line.number for line in events.finished] == [3]
