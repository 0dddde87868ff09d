"""`generate --check`: the corpora of this repository pass, and each kind of wrong label is told in one line."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ddpclassify.cli.generate import generate
from ddpclassify.corpus import load_corpus
from ddpclassify.corpus.groups import GROUPINGS, group_of

EXECUTED = Path(__file__).parents[2] / "data" / "executed.tar.xz"
LOG = "starting\n\n[rank1]: MemoryError\n"
HOUSE = """
[category.bad_luck]
origin = "environment"
retry = "yes"
meaning = "The dice fell badly."
first_check = "Look at the dice."
steps = ["Throw them again."]
"""
LABEL = {
    "log": "a.log", "category": "host_oom", "reason": "allocation_failed", "scope": "ranks", "culprit_ranks": [1],
    "evidence_lines": [3], "world_size": 2, "provenance": "executed",
}  # fmt: skip


def told(folder: Path, *labels: dict[str, Any], log: str = LOG) -> tuple[int, list[str]]:
    (folder / "a.log").write_text(log, "utf-8")
    (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels), "utf-8")
    result = CliRunner().invoke(generate, ["--check", str(folder)])
    return result.exit_code, result.stdout.splitlines()


def test_the_executed_corpus_of_this_repository_passes() -> None:
    result = CliRunner().invoke(generate, ["--check", str(EXECUTED)])
    assert (result.exit_code, result.stdout) == (0, "")


def test_a_right_label_passes(tmp_path: Path) -> None:
    assert told(tmp_path, LABEL) == (0, [])


@pytest.mark.parametrize(
    ("change", "offence"),
    [
        ({"log": "b.log"}, "no such log: b.log"),
        ({"category": "bad_luck"}, "category 'bad_luck' is not in the taxonomy"),
        ({"reason": "disk_full"}, "reason 'disk_full' is not one of host_oom"),
        ({"scope": None}, "scope is missing"),
        ({"scope": "some"}, "'scope' must be one of"),
        ({"scope": "none", "culprit_ranks": []}, "scope 'none' does not fit host_oom"),
        ({"culprit_ranks": []}, "scope 'ranks' with culprits []"),
        ({"evidence_lines": []}, "no evidence"),
        ({"evidence_lines": [4]}, "evidence line 4 does not exist; the log has 3"),
        ({"evidence_lines": [2]}, "evidence line 2 is blank"),
        ({"culprit_ranks": [2]}, "culprit 2 in a job of 2 ranks"),
    ],
)
def test_each_wrong_label_is_told_in_one_line(tmp_path: Path, change: dict[str, Any], offence: str) -> None:
    status, lines = told(tmp_path, {**LABEL, **change})
    assert status == 1
    assert len(lines) == 1
    assert lines[0].startswith("labels.jsonl:1: ")
    assert offence in lines[0]


def test_what_people_may_leave_out_is_no_offence(tmp_path: Path) -> None:
    assert told(tmp_path, {"log": "a.log", "category": "host_oom"}) == (0, [])


def test_an_own_category_is_told_once_and_not_when_it_is_described(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text(LOG)
    own = [{"log": log, "category": "bad_luck"} for log in ("a.log", "b.log")]
    status, lines = told(tmp_path, *own)
    assert (status, len(lines)) == (1, 1)
    assert "describe it in categories.toml" in lines[0]
    advice = (
        '[category.bad_luck]\norigin = "environment"\nretry = "yes"\nmeaning = "x"\nfirst_check = "x"\nsteps = ["x"]\n'
    )
    (tmp_path / "categories.toml").write_text(advice)
    assert told(tmp_path, *own) == (0, [])


def test_a_log_has_one_label(tmp_path: Path) -> None:
    assert told(tmp_path, LABEL, LABEL) == (1, ["labels.jsonl:2: a.log: has a label already"])


def test_a_culprit_appears_in_the_log_or_is_the_one_that_is_missing(tmp_path: Path) -> None:
    silent = {**LABEL, "category": "collective_timeout", "reason": "missing_rank", "evidence_lines": [1]}
    assert told(tmp_path, silent, log="[rank0]: Timed out waiting 8000ms for recv operation\n") == (0, [])
    status, lines = told(tmp_path, silent, log="Timed out waiting 8000ms for recv operation\n")
    assert (status, lines) == (1, ["labels.jsonl:1: a.log: culprits [1] are not in the log, nor is any other rank"])


@pytest.mark.parametrize(
    "planted",
    [
        f'File "{sys.prefix}/bin/tool"',
        'File "/srv/build/lib/python3.12/site-packages/torch/serialization.py", line 4',
        "/tmp/ddpclassify-jobs-x1/job-abcdefgh/train.py",
        "host      : trainer-box-17",
    ],
)
def test_a_recorded_log_names_nothing_of_the_machine(
    tmp_path: Path, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "trainer-box-17")
    status, lines = told(tmp_path, LABEL, log=LOG + planted + "\n")
    assert status == 1
    assert lines[0].startswith("labels.jsonl:1: a.log: line 4 holds ")


def test_groups_of_the_executed_corpus() -> None:
    rows = [each.row for each in load_corpus(EXECUTED)]
    counts = {grouping: len({group_of(row, grouping) for row in rows}) for grouping in GROUPINGS}
    assert max(counts["workload"], counts["launcher"]) < counts["template"] < len(rows)
    assert group_of({"log": "own.log"}, "launcher") == "own.log"
