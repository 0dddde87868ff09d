"""What stands at the edges of reading: odd dates, folders without logs, standard input, lines of JSON that are none."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddpclassify.events import extract
from ddpclassify.ranks import attribute
from ddpclassify.ranks.clock import Clock
from ddpclassify.read import read
from ddpclassify.read.literals import LITERALS
from ddpclassify.read.sources import _PIECE, list_jobs
from ddpclassify.types import InputError

try:
    from backports import zstd
except ImportError:
    from compression import zstd  # type: ignore[no-redef]
# name → how to pack, and how to unpack what there is of a file
PACK: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gz": (gzip.compress, lambda data: zlib.decompressobj(wbits=31).decompress(data)),
    "bz2": (lambda data: bz2.compress(data, 1), lambda data: bz2.BZ2Decompressor().decompress(data)),
    "xz": (lzma.compress, lambda data: lzma.LZMADecompressor().decompress(data)),
    "zst": (zstd.compress, lambda data: zstd.ZstdDecompressor().decompress(data)),
}
SCAN: Any = sys.modules["ddpclassify.read.scan"]  # the package has a function of this name


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


def test_a_folder_of_one_job_must_hold_logs(tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch()
    with pytest.raises(InputError, match="no log files in this folder"):
        read(tmp_path)


def test_a_link_to_nowhere_is_a_job_that_says_so_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to("nowhere")
    assert list_jobs(tmp_path) == [tmp_path / "a.log"]
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "a.log")


@pytest.mark.parametrize("damage", ["ends", "turns bad"])
@pytest.mark.parametrize("kind", PACK)
def test_a_packed_log_that_breaks_off_is_read_up_to_there(kind: str, damage: str, tmp_path: Path) -> None:
    """To the last piece: that is where the failure stands."""
    path = tmp_path / f"x.log.{kind}"
    pack, unpack = PACK[kind]
    whole = pack("".join(f"{n} {random.Random(n).randbytes(50).hex()}\n" for n in range(9500)).encode())
    half = whole[: len(whole) // 2 + 1000]
    path.write_bytes(half + (b"" if damage == "ends" else b"\xff" * 1000))
    there = len(unpack(half))
    assert read(path).n_bytes >= there - (0 if damage == "ends" else 2 * _PIECE) > 300_000


def test_members_and_fillings_of_a_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    members = [b"a" * 100_000 + b"\n", b"ValueError: x\n", b"c" * (1 << 14)]
    path.write_bytes(b"\0\0".join(map(gzip.compress, members)) + b"\0" * 512)
    excerpt = read(path)
    assert (excerpt.n_bytes, excerpt.n_lines) == (sum(map(len, members)), 3)
    path.write_bytes(gzip.compress(b"ValueError: x\n") + b"garbage")
    assert read(path).n_lines == 1


@pytest.mark.parametrize("missing", ["ahocorasick_rs", "isal.isal_zlib"])
def test_without_its_fast_parts_it_reads_the_same(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no wheels for some platforms."""
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(b"step 1\n" * 2000 + b"ValueError: x\n" + b"step 2\n" * 2000))
    usual = read(path)
    monkeypatch.setitem(sys.modules, missing, None)
    assert read(path) == usual


def test_many_bytes_are_counted_another_way_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b"step %d" % i for i in range(100_000)]
    usual = read(lines)
    monkeypatch.setattr(SCAN, "MANY_BYTES", 0)
    assert read(lines) == usual


def test_more_late_lines_than_are_kept_leave_the_last_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of kinds of errors, again and again: each is still heard at the end, and memory stays bounded."""
    monkeypatch.setattr(SCAN, "EARLY", 2000)
    monkeypatch.setattr(SCAN, "LATE", 1000)
    kinds = [f"RuntimeError: {a}{b}" for a in "ghijklmnopqrstuv" for b in "ghijklmnopqrstuv"]
    log = [f"{kind} {n} " + "x" * 200 for n in range(100) for kind in kinds]
    kept = read(log + ["step 1"] * SCAN.TAIL).lines
    assert len(kept) <= 2000 + 1000 + SCAN.HEAD + SCAN.TAIL
    kept = tuple(line for line in kept if line.number <= len(log))
    late = {line.text.split()[1] for line in kept if line.number > 2000 + SCAN.HEAD + len(kinds)}
    assert late == {kind.split()[1] for kind in kinds}


def test_a_line_of_nothing_but_carriage_returns_is_empty() -> None:
    assert [line.text for line in read([b"a", b"\r\r\r", b"\r \rb"]).lines] == ["a", "", "b"]


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
