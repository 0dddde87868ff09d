"""Reading: every form of input, exact line numbers, bounded memory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpclassify.read import read
from ddpclassify.read.ahead import ahead
from ddpclassify.read.blocks import BLOCK, OVERLAP, from_pieces
from ddpclassify.read.scan import HEAD, TAIL, regex_scanner, scan, scanner
from ddpclassify.read.sources import hint
from ddpclassify.types import InputError

LOG = b"start\n" + b"step 1\n" * 5000 + b"ValueError: x\n" + b"step 2\n" * 5000 + b"end\n"


def numbers(path: Path) -> dict[str, int]:
    return {line.text: line.number for line in read(path).lines}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_compressed_logs_read_like_plain_ones(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "any-name"
    path.write_bytes(pack(LOG))
    excerpt = read(path)
    assert (excerpt.n_lines, excerpt.n_bytes) == (10003, len(LOG))
    assert numbers(path)["ValueError: x"] == 5002


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_compressed_log_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path, pack, capsys) -> None:  # type: ignore[no-untyped-def]
    log = b"".join(b"[rank%d]: line %d\n" % (n % 4, n) for n in range(60_000))
    packed = pack(log)
    (path := tmp_path / "log").write_bytes(packed[: len(packed) // 2])
    excerpt = read(path)
    assert 20_000 < excerpt.n_lines < 40_000
    assert excerpt.lines[-2].text == f"[rank{(excerpt.n_lines - 2) % 4}]: line {excerpt.n_lines - 2}"
    assert "damaged at its end" in capsys.readouterr().err


@given(pieces=st.lists(st.binary(max_size=50), max_size=8), room=st.integers(1, 70))
@settings(deadline=None)
def test_what_is_read_ahead_is_what_is_there(pieces: list[bytes], room: int) -> None:
    fill, got, view = ahead(from_pieces(pieces)), b"", memoryview(bytearray(room))
    while n := fill(view):
        got += bytes(view[:n])
    assert got == b"".join(pieces)
    assert fill(view) == 0


def test_what_goes_wrong_ahead_is_told_in_its_place() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"abc"
        raise InputError("no more")

    fill, view = ahead(from_pieces(pieces())), memoryview(bytearray(9))
    assert bytes(view[: fill(view)]) == b"abc"
    with pytest.raises(InputError, match="no more"):
        fill(view)


def test_zstd(tmp_path: Path) -> None:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    path = tmp_path / "log.zst"
    path.write_bytes(zstd.compress(LOG))
    assert numbers(path)["ValueError: x"] == 5002


def test_standard_input() -> None:
    code = "from ddpclassify.read import read\ne = read('-')\n"
    code += "print(e.n_lines, [x.number for x in e.lines if 'Value' in x.text])"
    out = subprocess.run([sys.executable, "-c", code], input=LOG, capture_output=True, check=True)
    assert out.stdout.decode().strip() == "10003 [5002]"


@pytest.mark.parametrize(
    ("data", "text", "number"),
    [
        (b"a\r\nValueError: x\r\n", "ValueError: x", 2),
        (b"10%|#  |\r20%|## |\rValueError: x\n", "ValueError: x", 1),
        (b"\x1b[31mValueError\x1b[0m: x\n", "ValueError: x", 1),
        (b"Val\x00ueError: x\n", "ValueError: x", 1),
        (b"caf\xe9 ValueError: x\n", "caf\ufffd ValueError: x", 1),
        ("a\nValueError: é\n".encode("utf-16"), "ValueError: é", 2),
        (b"no line feed at the end\nValueError: x", "ValueError: x", 2),
    ],
)
def test_odd_bytes(tmp_path: Path, data: bytes, text: str, number: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    assert numbers(path)[text] == number


def test_a_huge_line_is_one_line_and_its_error_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\n" + b"x" * 5_000_000 + b" ValueError: deep inside " + b"y" * 5_000_000 + b"\nlast\n")
    excerpt = read(path)
    assert excerpt.n_lines == 3
    assert {line.number for line in excerpt.lines} == {1, 2, 3}
    assert any("ValueError: deep inside" in line.text for line in excerpt.lines)
    assert sum(len(line.text) for line in excerpt.lines) < 200_000


def test_a_flood_of_equal_lines_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"ERROR: sample %d is bad\n" % i for i in range(200_000)))
    excerpt = read(path)
    assert excerpt.n_lines == 200_000
    assert len(excerpt.lines) < 4 * 1024
    assert excerpt.lines[-1].number == 200_000


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b\x08garbage"])
def test_bad_input_is_one_clear_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    if data:
        with pytest.raises(InputError, match=r"log: can't be decompressed"):
            read(path)
    else:
        assert read(path).n_lines == 0
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "missing")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_a_device_that_never_ends_is_refused() -> None:
    with pytest.raises(InputError, match="/dev/zero: a device, not a log"):
        read("/dev/zero")
    assert read("/dev/null").n_lines == 0


def test_a_folder_is_one_job(tmp_path: Path) -> None:
    for rank in (0, 1, 10):
        file = tmp_path / "none_x1" / "attempt_0" / str(rank) / "stderr.log"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"ok\nValueError: %d\n" % rank)
    excerpt = read(tmp_path)
    assert [f.local_rank for f in excerpt.files] == [0, 1, 10]
    assert [(line.file, line.number) for line in excerpt.lines] == [(i, n) for i in range(3) for n in (1, 2)]


@pytest.mark.parametrize(
    ("name", "rank", "local_rank", "host"),
    [
        ("none_ab/attempt_1/3/stdout.log", None, 3, None),
        ("rank3.log", 3, None, None),
        ("logs/worker-3.err", 3, None, None),
        ("20261201_rank12.log", 12, None, None),
        ("node2/rank11.log", 11, None, "node2"),
        ("7.out", 7, None, None),
        ("train.log", None, None, None),
    ],
)
def test_names_tell_ranks(name: str, rank: int | None, local_rank: int | None, host: str | None) -> None:
    found = hint(name)
    assert (found.rank, found.local_rank, found.host) == (rank, local_rank, host)


line = st.sampled_from([b"step", b"ValueError: x", b"", b"Traceback (most recent call last):", b"x" * 300, b"\rabc\r"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(line, max_size=3 * HEAD), st.integers(1, 4000), st.sampled_from([2 * OVERLAP, 777, BLOCK]), st.booleans()
)
def test_numbers_are_those_of_the_text_however_it_is_cut(lines: list[bytes], cut: int, size: int, ended: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    chunks = [data[i : i + cut] for i in range(0, len(data), cut)]
    kept, n_lines, n_bytes = scan(0, from_pieces(chunks), scanner(), size)
    assert n_bytes == len(data)
    assert n_lines == data.count(b"\n") + bool(data and not data.endswith(b"\n"))
    wanted = {n for n, text in enumerate(data.split(b"\n"), 1) if n <= n_lines and b"Error" in text}
    assert wanted <= {k.number for k in kept}
    if n_lines <= min(HEAD, TAIL) and size == BLOCK:
        assert {k.number for k in kept} == set(range(1, n_lines + 1))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([b"Error", b"ERROR", b"xception", b"OutOfMemoryError", b" abc ", b"\n", b'File "'])))
def test_both_scanners_give_the_same_hits(parts: list[bytes]) -> None:
    block = b"".join(parts)[:BLOCK]
    assert list(scanner()(block)) == list(regex_scanner()(block))


def test_a_flood_of_ever_new_errors_stays_small_and_the_last_one_is_kept(tmp_path: Path) -> None:
    words = random.Random(0)
    path = tmp_path / "log"
    with path.open("w") as log:
        for i in range(60_000):
            log.write(f"[rank{i % 8}]: ValueError: no {''.join(words.choices('ghijklmnopqrstuvwxyz', k=12))}\n")
        log.writelines(f"step {i}\n" for i in range(TAIL + 10))
    kept = read(path).lines
    assert len(kept) < 10_000
    assert 60_000 in {line.number for line in kept}


def test_all_of_many_ranks_are_heard(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as log:
        log.writelines(f"step {i}\n" for i in range(HEAD + 10))
        for rank in range(4096):
            log.write(f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "t.py", line 3, in f\n')
            log.write(f"[rank{rank}]: ValueError: x\n")
        log.writelines(f"step {i}\n" for i in range(TAIL + 10))
    texts = {line.text for line in read(path).lines}
    assert all(f"[rank{rank}]: ValueError: x" in texts for rank in range(4096))


def test_an_error_between_the_states_of_a_progress_bar_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\r10%" * 50 + b"\rValueError: x" + b"\r20%" * 50 + b"\n")
    assert [line.text for line in read(path).lines] == ["ValueError: x", "20%", "20%", "20%"]
