"""Nasty files, made on the fly: every one is read as far as it goes or refused in one line; no crash, no hang.

One million equal tracebacks and a line of 100 MB; `DDPCLASSIFY_SIZES=10` makes them ten million and a gigabyte.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddpclassify import load_model
from ddpclassify.report import text_report
from ddpclassify.types import Diagnosis, InputError

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.log"))
TRACEBACK = b'[rank1]: Traceback (most recent call last):\n[rank1]:   File "t.py", line 3, in f\n[rank1]: KeyError: 5\n'
TIMES = int(os.environ.get("DDPCLASSIFY_SIZES", "1"))
MEMORY = 1 << 30  # bytes of address space that any of these may take
try:
    from backports import zstd
except ImportError:
    from compression import zstd  # type: ignore[no-redef]
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd.compress,
}


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def predict(*args: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the command as people do, in little memory and time."""
    return subprocess.run(
        [sys.executable, "-m", "ddpclassify", "predict", "--json", *args],
        input=data,
        stdin=None if data is not None else subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        preexec_fn=little_memory,
    )


def refused(done: subprocess.CompletedProcess[bytes]) -> str:
    """Check that there is one line of error and no traceback; return it."""
    assert done.returncode == 1
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("ddpclassify: ")
    assert lines[0].isprintable()
    return lines[0]


def shown(lines: list[bytes]) -> Diagnosis:
    diagnosis = load_model().diagnose(lines)
    assert all(c.isprintable() or c == "\n" for c in text_report(diagnosis, verbose=True))
    assert all(1 <= e["line"] <= max(1, diagnosis.lines) for e in diagnosis.evidence)
    return diagnosis


def test_a_log_cut_at_every_byte() -> None:
    log = min(CASES, key=lambda case: case.stat().st_size).read_bytes()
    for end in range(len(log)):
        shown(log[:end].split(b"\n"))
    for case in CASES:
        log = case.read_bytes()
        for end in range(0, len(log), 61):
            shown(log[:end].split(b"\n"))


def test_a_log_in_any_order() -> None:
    rng = random.Random(3)
    for case in CASES:
        lines = case.read_bytes().split(b"\n")
        for _ in range(10):
            rng.shuffle(lines)
            shown(lines)


@pytest.mark.parametrize("number", [b"9" * 40, b"9" * 4400, "٣".encode(), "²".encode(), b"-1", b"0" * 50 + b"3"])
def test_numbers_that_no_job_has_where_any_number_stands(number: bytes) -> None:
    import re

    from ddpclassify.events.statements import STATEMENTS
    from ddpclassify.ranks.forms import FORMS

    texts = [row.example for row in STATEMENTS] + [form.example + "x: Error" for form in FORMS]
    lines = [re.sub(rb"\d+", number, text.encode()) for text in texts]
    lines += [b"ranks by host n1: 0-" + number, b"nnodes=2, num_local_procs=" + number + b", node_rank=" + number]
    lines += [
        b'  File "a.py", line ' + number + b", in f",
        b"Process " + number + b" terminated with the following error:",
    ]
    shown(lines)


def test_a_hundred_thousand_ranks() -> None:
    lines = [b"[rank%d]: step 5 loss 0.1 of world_size=100000" % i for i in range(100_000)]
    lines += [b"[rank%d]: RuntimeError: x" % i for i in range(0, 100_000, 50)]
    assert shown(lines).lines == 102_000


def test_dates_out_of_range() -> None:
    shown(
        [
            d + b" [rank0]: RuntimeError: x"
            for d in (b"9999-12-31T99:99:99", b"0000-00-00 00:00:00", b"2026-02-30 25:61:61")
        ]
    )
    shown([b"9999-12-31 24:59:59 [rank0]: RuntimeError: x"] * 3)


def test_tracebacks_in_tracebacks_ten_thousand_deep() -> None:
    link = [b"During handling of the above exception, another exception occurred:", b""]
    shown([*TRACEBACK.split(b"\n"), *link] * 10_000)
    shown([b"Traceback (most recent call last):"] * 10_000)
    shown([b'  File "t.py", line 3, in f'] * 10_000)
    shown([b"  " * i + b"| Exception Group Traceback (most recent call last):" for i in range(2000)])


@pytest.mark.parametrize("opening", ['{"log": [', '{"a":', '{"py_callstack": [[', "[{", '{"message": {"extraInfo": {'])
def test_json_nested_deeper_than_python_goes(opening: str) -> None:
    shown([(opening * 9000)[:8000].encode(), *TRACEBACK.split(b"\n")])


def test_tables_and_labels_nested_deeper_than_python_goes(tmp_path: Path) -> None:
    from ddpclassify.baselines.writers import Writers
    from ddpclassify.corpus import load_corpus
    from ddpclassify.corpus.check import check
    from ddpclassify.evaluation.prediction import read_answers
    from ddpclassify.tables import read_toml

    for name in ("labels.jsonl", "categories.toml"):
        (tmp_path / name).write_text(("a = " if name.endswith("toml") else "") + "[" * 100_000)
    with pytest.raises(InputError, match="nested too deep"):
        load_corpus(tmp_path)
    with pytest.raises(InputError, match="nested too deep"):
        read_answers(tmp_path / "labels.jsonl", ["x"])
    assert len(Writers().read(1, "[" * 4000)) == 1
    with pytest.raises(ValueError, match="not a TOML file: nested too deep"):
        read_toml(tmp_path / "categories.toml")
    with pytest.raises(InputError, match="nested too deep"):
        list(check(tmp_path))
    (tmp_path / "categories.toml").unlink()
    assert "nested too deep" in next(check(tmp_path))


def streamed(piece: bytes, times: int) -> dict[str, Any]:
    """Diagnose a piece that comes again and again, which at ten times is more than the memory that is allowed."""
    command = [sys.executable, "-m", "ddpclassify", "predict", "--json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=little_memory
    ) as job:
        assert job.stdin is not None
        for _ in range(times):
            job.stdin.write(piece)
        out, err = job.communicate(timeout=600)
    assert (job.returncode, err) == (0, b"")
    answer: dict[str, Any] = json.loads(out)
    assert answer["bytes"] == len(piece) * times
    return answer


def test_millions_of_equal_tracebacks() -> None:
    answer = streamed(TRACEBACK * 10_000, 100 * TIMES)
    assert answer["lines"] == 3_000_000 * TIMES


def test_a_line_without_end() -> None:
    assert streamed(b"Error: x " * 111_112, 100 * TIMES)["lines"] == 1


@pytest.mark.parametrize("kind", PACK)
def test_packed_files_that_swell_end_or_are_garbage(kind: str, tmp_path: Path) -> None:
    bomb = tmp_path / f"bomb.log.{kind}"
    bomb.write_bytes(PACK[kind](bytes(200_000_000)))
    done = predict(str(bomb))
    assert (done.returncode, json.loads(done.stdout)["bytes"]) == (0, 200_000_000)
    whole = PACK[kind](TRACEBACK * 3000 + os.urandom(200_000))
    half, garbage = tmp_path / f"half.log.{kind}", tmp_path / f"garbage.log.{kind}"
    half.write_bytes(whole[: len(whole) // 2])
    garbage.write_bytes(whole[:6] + os.urandom(2000))
    done = predict(str(half))
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 1)  # a block of bzip2 may be all there is
    assert len(done.stderr.splitlines()) == 1
    assert "garbage" in refused(predict(str(garbage)))


def test_a_device_and_a_missing_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    assert "device" in refused(predict("/dev/zero"))
    assert "No such file" in refused(predict(str(tmp_path / "none\n\x1b[31m.log")))
    assert "no log files" in refused(predict(str(tmp_path)))
    assert predict("/dev/null").returncode == 0


def test_a_folder_of_traps(tmp_path: Path) -> None:
    good = tmp_path / "rank1.log"
    good.write_bytes(TRACEBACK)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "rank2.log").symlink_to("rank2.log")
    (tmp_path / "rank3.log").symlink_to("/nothing")
    os.mkfifo(tmp_path / "rank4.log")
    (tmp_path / "rank5.log").mkdir()
    (tmp_path / "1²2rank٣\n\x1b[31m.log").write_bytes(TRACEBACK)
    (tmp_path / "rank6.log.gz").write_bytes(b"\x1f\x8bgarbage")
    (tmp_path / "rank7.log").symlink_to("/proc/self/mem")  # a file that even its owner can't read
    done = predict(str(tmp_path))
    assert done.returncode == 0
    assert json.loads(done.stdout)["lines"] == 6


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", f"cat {CASES[0]} > {pipe}"])
    done = predict(str(pipe))
    writer.wait()
    assert (done.returncode, json.loads(done.stdout)["bytes"]) == (0, CASES[0].stat().st_size)


def test_a_file_that_shrinks_or_vanishes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ddpclassify.read import sources

    plain = sources._plain
    for harm in (lambda path: os.truncate(path, 10), os.unlink):
        log = tmp_path / "x.log"
        log.write_bytes(TRACEBACK * 20_000)

        def harmed(stream, harm=harm, log=log):  # type: ignore[no-untyped-def]
            fill, calls = plain(stream), iter(range(10**9))

            def after(view: memoryview) -> int:
                if next(calls) == 2:
                    harm(log)
                return fill(view)

            return after

        monkeypatch.setattr(sources, "_plain", harmed)
        try:
            load_model().diagnose(log)
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "{case}"],
        ["predict", "--json", "--each", "{cases}"],
        ["report", "{case}", "-o", "-"],
        ["split", "{case}", "-o", "{out}"],
        ["run", "--logs", "{out}", "--", "sh", "-c", "cat {case}; exit 3"],
        ["watch", "{case}", "--once", "--settle", "0"],
        ["fleet", "{cases}", "-o", "{out}"],
        ["label", "{out}"],
        ["model"],
    ],
    ids=lambda command: command[0],
)
def test_no_command_opens_a_socket_to_others(command: list[str], tmp_path: Path) -> None:
    """Only what stays on the machine (`AF_UNIX`, which processes of one pool use) is let through."""
    (tmp_path / "one.log").write_bytes(TRACEBACK)
    filled = [word.format(case=CASES[0], cases=CASES[0].parent, out=tmp_path) for word in command]
    if command[0] in ("split", "fleet"):
        filled[-1] = str(tmp_path / "new")
    code = (
        "import socket, sys\n"
        "def hook(event, args):\n"
        "    if event in ('socket.getaddrinfo', 'socket.gethostbyname'):\n"
        "        raise AssertionError(event)\n"
        "    if event in ('socket.connect', 'socket.bind', 'socket.sendto') and args[0].family != socket.AF_UNIX:\n"
        "        raise AssertionError(event)\n"
        "sys.addaudithook(hook)\n"
        f"sys.argv = ['ddpclassify', *{filled!r}]\nfrom ddpclassify.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 3, 10), done.stderr
    assert "AssertionError" not in done.stderr
