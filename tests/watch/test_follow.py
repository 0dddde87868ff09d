"""Following a file as it grows, moves, shrinks and comes back: every line is seen once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpclassify.watch.follow import Follower


def seen(follower: Follower) -> list[str]:
    return [line for _, piece in follower.poll() for line in piece.decode().splitlines()]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_file_that_comes_late_and_grows(tmp_path: Path) -> None:
    log = tmp_path / "job[1].log"
    follower = Follower(log)
    assert seen(follower) == []
    append(log, "one\ntw")
    assert seen(follower) == ["one"]
    append(log, "o\n")
    assert seen(follower) == ["two"]
    append(log, "the end without a line feed")
    assert seen(follower) == []
    assert seen(follower) == ["the end without a line feed"]
    assert follower.excerpt().n_lines == 3


def test_rotation_by_renaming_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    append(log, "one\n")
    follower = Follower(log)
    assert seen(follower) == ["one"]
    append(log, "two\n")
    log.rename(tmp_path / "job.log.1")
    append(log, "three\n")
    assert sorted(seen(follower)) == ["three", "two"]
    assert seen(follower) == []
    assert follower.excerpt().n_lines == 3


def test_truncation_keeps_what_was_seen(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    append(log, "Traceback (most recent call last):\nKeyError: 1\n")
    follower = Follower(log)
    seen(follower)
    log.write_text("new\n")
    assert [*seen(follower), *seen(follower)] == ["new"]
    log.write_text("another text, longer than the one before\n")
    assert [*seen(follower), *seen(follower)] == ["another text, longer than the one before"]
    assert [line.text for line in follower.excerpt().lines][:2] == ["Traceback (most recent call last):", "KeyError: 1"]


def test_a_folder_with_late_rotated_and_packed_files(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    append(tmp_path / "rank0.log", "a\n")
    assert seen(follower) == ["a"]
    append(tmp_path / "rank1.log", "b\n")
    append(tmp_path / "rank0.log", "c\n")
    assert sorted(seen(follower)) == ["b", "c"]
    (tmp_path / "rank0.log").rename(tmp_path / "rank0.log.1")
    append(tmp_path / "rank0.log", "d\n")
    (tmp_path / "rank0.log.2.gz").write_bytes(b"\x1f\x8b read before")
    assert seen(follower) == ["d"]
    assert [source.rank for source in follower.excerpt().files] == [0, 1, 0]


def test_the_kept_lines_are_those_of_a_single_reading(tmp_path: Path) -> None:
    from ddpclassify.read import read

    case = Path(__file__).parent.parent / "cases" / "oom-one-of-eight-then-watchdogs.log"
    log = tmp_path / "job.log"
    follower = Follower(log)
    for line in case.read_text().splitlines(keepends=True):
        append(log, line)
        follower.poll()
    assert follower.excerpt().lines == read(log).lines


def test_many_truncations_are_bounded(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    follower = Follower(log)
    for number in range(300):
        log.write_text(f"{number % 7}" * (400 - number) + "\n")
        follower.poll()
    assert len(follower.files) < 70


def test_a_half_line_waits_while_others_use_up_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddpclassify.watch.follow._BUDGET", 100)
    append(tmp_path / "rank0.log", "first\n")
    append(tmp_path / "rank1.log", "half")
    follower = Follower(tmp_path)
    assert seen(follower) == ["first"]
    append(tmp_path / "rank0.log", "x" * 200 + "\n")
    append(tmp_path / "rank1.log", " a line\n")
    assert sorted([*seen(follower), *seen(follower)]) == ["half a line", "x" * 200]
