"""Loading of labelled corpora: forms, and errors that name file and line."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from ddpclassify.corpus import Labelled, load_corpus
from ddpclassify.corpus.lines import read_lines
from ddpclassify.types import InputError


def corpus(folder: Path, *rows: object) -> Path:
    (folder / "a.log").write_text("x\n")
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "labels.jsonl").write_text("\n".join(texts) + "\n", "utf-8")
    return folder


def test_full_and_bare_rows(tmp_path: Path) -> None:
    full = {
        "log": "a.log",
        "category": "cuda_oom",
        "scope": "ranks",
        "culprit_ranks": [3, 1],
        "evidence_lines": [7, "b:2"],
    }
    bare = {"log": "a.log", "category": "of_our_own", "note": "line\u2028break"}
    first, second = load_corpus(corpus(tmp_path, full, "", bare))
    assert first == Labelled(tmp_path / "a.log", "a.log", "cuda_oom", "ranks", (1, 3), ("7", "b:2"))
    assert (second.category, second.scope, second.culprit_ranks) == ("of_our_own", None, None)
    assert second.row["note"] == "line\u2028break"


def test_subfolders(tmp_path: Path) -> None:
    for name in ("cuda_oom/b.log", "cuda_oom/a.log.gz", "data_error/job1/rank0.log", ".cache/x.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    assert [(x.log, x.category) for x in load_corpus(tmp_path)] == [
        ("cuda_oom/a.log.gz", "cuda_oom"),
        ("cuda_oom/b.log", "cuda_oom"),
        ("data_error/job1", "data_error"),
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('{"log": ', "not JSON: Expecting value, column 9"),
        ("[1]", "a row must be a JSON object"),
        ({"log": "a.log"}, "'category' is missing"),
        ({"log": 3, "category": "x"}, "'log' must be a text"),
        ({"log": "b.log", "category": "x"}, "no such log: b.log"),
        ({"log": "a.log", "category": "x", "scope": "some"}, "'scope' must be one of ranks, all"),
        ({"log": "a.log", "category": "x", "culprit_ranks": [True]}, "'culprit_ranks' must be a list of rank numbers"),
        (
            {"log": "a.log", "category": "x", "scope": "all", "culprit_ranks": [1]},
            "must be empty where 'scope' is 'all'",
        ),
        ({"log": "a.log", "category": "x", "evidence_lines": 4}, "'evidence_lines' must be a list"),
    ],
)
def test_bad_rows_name_file_and_line(tmp_path: Path, row: object, problem: str) -> None:
    folder = corpus(tmp_path, {"log": "a.log", "category": "x"}, row)
    with pytest.raises(InputError) as raised:
        load_corpus(folder)
    assert str(raised.value).startswith(f"{folder / 'labels.jsonl'}:2: ")
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such corpus"):
        load_corpus(tmp_path / "none")
    with pytest.raises(InputError, match="no labelled logs"):
        load_corpus(tmp_path)


def test_lines_of_a_folder(tmp_path: Path) -> None:
    for name, text in {"rank0.log": "a\nb\n", "rank1.log": "[rank1]: c"}.items():
        (tmp_path / name).write_text(text)
    lines, places = read_lines(tmp_path)
    assert lines == ["[rank0]: a", "[rank0]: b", "[rank1]: [rank1]: c"]
    assert places == [("rank0.log", 1), ("rank0.log", 2), ("rank1.log", 1)]


def test_only_the_last_attempt_of_a_torchrun_tree(tmp_path: Path) -> None:
    for attempt in (0, 1):
        file = tmp_path / f"attempt_{attempt}" / "3" / "stderr.log"
        file.parent.mkdir(parents=True)
        file.write_text("x\r\ny\n")
    lines, places = read_lines(tmp_path)
    assert lines == ["[default3]:x\r", "[default3]:y"]
    assert places[0] == ("attempt_1/3/stderr.log", 1)


def test_lines_are_cut_at_line_feeds_only(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"a\x0cb\rc\n\nd\xff")
    assert read_lines(tmp_path / "a.log")[0] == ["a\x0cb\rc", "", "d\ufffd"]


def test_a_packed_corpus(tmp_path: Path) -> None:
    inside = tmp_path / "executed"
    inside.mkdir()
    corpus(inside, {"log": "a.log", "category": "cuda_oom"})
    packed = tmp_path / "executed.tar.xz"
    with tarfile.open(packed, "w:xz") as archive:
        archive.add(inside, "executed")
    (only,) = load_corpus(packed)
    assert only.category == "cuda_oom"
    assert only.path.read_text() == "x\n"


def test_no_archive_and_an_archive_that_leads_out(tmp_path: Path) -> None:
    broken = tmp_path / "broken.tar.xz"
    broken.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"broken\.tar\.xz: not a readable tar archive"):
        load_corpus(broken)
    outside = tmp_path / "outside.tar"
    with tarfile.open(outside, "w") as archive:
        archive.add(broken, "../../escaped.log")
    with pytest.raises(InputError, match="not a readable tar archive"):
        load_corpus(outside)
