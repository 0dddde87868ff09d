"""The answer for a terminal."""

from __future__ import annotations

import doctest
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ddpclassify import language
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


@pytest.mark.parametrize("spoken", ["en", "zh"])
@pytest.mark.parametrize("verbose", [False, True], ids=["", "verbose"])
@pytest.mark.parametrize("path", sorted(CASES.glob("*.log")), ids=lambda p: p.stem)
def test_fits_80_columns(path: Path, verbose: bool, spoken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES)  # a path is never broken
    language.use(spoken)
    text = told(Path(path.name), verbose)
    language.use("en")
    assert [line for line in text.splitlines() if columns(line) > 80] == []


@pytest.mark.parametrize("path", sorted(CASES.glob("*.log")), ids=lambda p: p.stem)
def test_reads_from_the_top(path: Path) -> None:
    text = told(path)
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


def where(log: str, tmp_path: Path) -> list[str]:
    """The lines of `where` in the answer."""
    path = tmp_path / "job.log"
    path.write_text(log, encoding="utf-8")
    lines = told(path).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  where"))
    end = next((i for i in range(start + 1, len(lines)) if lines[i][2] != " "), len(lines))
    return [line[11:] for line in lines[start:end]]


LIBRARY = "/opt/env/lib/python3.11/site-packages"
MINE = """\
Traceback (most recent call last):
  File "/home/ann/train.py", line 90, in <module>
    main()
  File "/home/ann/train.py", line 60, in main
    for batch in loader:
"""
WRAPPED = f"""\
Traceback (most recent call last):
  File "{LIBRARY}/urllib3/connection.py", line 198, in _new_conn
    sock = connection.create_connection(
socket.gaierror: [Errno -3] Temporary failure in name resolution

The above exception was the direct cause of the following exception:

{MINE}  File "{LIBRARY}/requests/adapters.py", line 700, in send
    raise ConnectionError(e, request=request)
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hub', port=443): Max retries exceeded
"""
WORKER = f"""\
{MINE}  File "{LIBRARY}/torch/_utils.py", line 705, in reraise
    raise exception
RuntimeError: Caught RuntimeError in DataLoader worker process 6.
Original Traceback (most recent call last):
  File "{LIBRARY}/torch/utils/data/_utils/worker.py", line 308, in _worker_loop
    data = fetcher.fetch(index)
  File "{LIBRARY}/PIL/Image.py", line 10, in open
    raise RuntimeError("broken data stream when reading image file")
RuntimeError: broken data stream when reading image file
"""
LAUNCHER = f"""\
Traceback (most recent call last):
  File "/opt/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "{LIBRARY}/torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py", line 55, in next_rendezvous
    self._store = TCPStore(
RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
"""
GLUED = """\
Traceback (most recent call last):
Traceback (most recent call last):
  File "/home/ann/train.py", line 90, in <module>
  File "/home/ann/train.py", line 90, in <module>
    main()    main()

  File "/home/ann/train.py", line 60, in main
  File "/home/ann/train.py", line 60, in main
    total = lost + 1    total = lost + 1

NameError: name 'lost' is not definedNameError: name 'lost' is not defined

"""


@pytest.mark.parametrize("log", [WRAPPED, WORKER], ids=["wrapped", "worker process"])
def test_the_users_frame_is_found_in_the_traceback_that_an_exception_is_chained_to(log: str, tmp_path: Path) -> None:
    lines = where(log, tmp_path)
    assert lines[:3] == ["train.py:60 in main", "> for batch in loader:", "called from train.py:90 in <module>"]


def test_a_traceback_without_the_users_frames_says_so(tmp_path: Path) -> None:
    lines = where(LAUNCHER, tmp_path)
    assert " ".join(lines).startswith("in torch, no line of your own code: static_tcp_rendezvous.py:55 in next_rendezv")


def test_tracebacks_that_ranks_wrote_over_each_other_are_told_once(tmp_path: Path) -> None:
    expected = ["train.py:60 in main", "> total = lost + 1", "called from train.py:90 in <module>"]
    assert where(GLUED, tmp_path) == expected


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
    assert told(NAME, quiet=True).endswith(", all ranks")
    assert len(told(OOM, verbose=True)) > len(told(OOM))


def test_quiet_tells_the_best_guess_about_an_unknown_failure() -> None:
    diagnosis = replace(load_model().diagnose(OOM), category="unknown")
    probability = diagnosis.candidates[0]["probability"]
    assert f": unknown, best guess cuda_oom {probability:.0%}, rank 5" in text_report(diagnosis, quiet=True)


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


def test_an_empty_log_is_called_empty() -> None:
    for log in ([], [" ", "\t", "\x1b[0m", ""]):
        diagnosis = load_model().diagnose(log)
        assert (diagnosis.category, diagnosis.scope, diagnosis.culprit_ranks) == ("unknown", "unknown", [])
        assert diagnosis.culprit_confidence == 0
        text = text_report(diagnosis)
        assert "who      the log does not tell which rank" in text
        assert "missing  The log holds no line." in text
        assert "Nothing in the log names the rank" not in text


def test_nothing_but_printable_characters(tmp_path: Path) -> None:
    path = tmp_path / "evil\x1b[31m\u202e.log"
    path.write_bytes(
        b'[rank0]: Traceback (most recent call last):\n[rank0]:   File "/t\xe2\x80\xae.py", line 1, in f\x1b]0;x\x07\n'
        b"[rank0]:     boo\x9b31m()\n[rank0]: ValueError: \x1b[2J\xe2\x80\xaeboo\x9b31m\n"
    )
    args = [sys.executable, "-m", "ddpclassify", "predict", "-v", str(path)]
    out = subprocess.run(args, capture_output=True, check=True).stdout.decode()
    assert all(c.isprintable() or c == "\n" for c in out)
