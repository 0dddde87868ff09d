"""``ddpclassify label``: what comes next, what is written, and going on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ddpclassify import Diagnosis, diagnose
from ddpclassify.cli.label import label
from ddpclassify.corpus import load_corpus
from ddpclassify.train.choice import next_to_label

Build = Callable[..., Path]


@pytest.fixture
def folder(house: Build) -> Path:
    corpus = house(each=2)
    (corpus / "labels.jsonl").unlink()
    return corpus


def run(folder: Path, *answers: str) -> Result:
    return CliRunner().invoke(label, [str(folder), "-j", "1"], input="".join(f"{a}\n" for a in answers))


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]


def correct(category: str) -> tuple[str, ...]:
    return ("c", category, "ranks", "1", "10")


def test_labels_are_kept_one_by_one_and_gone_on_with(folder: Path) -> None:
    first = run(folder, *correct("licence_denied"), "q")
    assert first.exit_code == 0, first.output
    assert "1 logs labelled" in first.stdout and "5 left" in first.stdout
    (row,) = rows(folder)
    assert row | {"log": ""} == {
        "log": "",
        "category": "licence_denied",
        "scope": "ranks",
        "culprit_ranks": [1],
        "evidence_lines": [10],
    }
    second = run(folder, *correct("licence_denied"), *correct("licence_denied"))  # then the input ends
    assert second.exit_code == 0, second.output
    assert "3 logs labelled" in second.stdout
    assert row["log"] not in {each["log"] for each in rows(folder)[1:]}
    assert len(load_corpus(folder)) == 3


def test_accepting_writes_the_diagnosis(house: Build) -> None:
    corpus = house(each=1, categories=("cuda_oom",))
    (corpus / "labels.jsonl").unlink()
    result = run(corpus, "a")
    assert "1 logs labelled" in result.stdout
    (row,) = rows(corpus)
    assert (row["category"], row["culprit_ranks"], row["evidence_lines"][0]) == ("cuda_oom", [1], 10)


def test_slips_are_asked_again(folder: Path) -> None:
    result = run(folder, "c", "?", "cuda_omm", "unknown", "cuda_oom", "ranks", "one", "0, 1", "10", "q")
    assert "cuda_oom, host_oom, " in result.output
    assert "did you mean 'cuda_oom'?" in result.output
    assert "give rank numbers" in result.output
    assert rows(folder)[0]["culprit_ranks"] == [0, 1]


def test_skipping_all_writes_nothing(folder: Path) -> None:
    result = run(folder, *"ssssss")
    assert "0 logs labelled" in result.stdout
    assert not (folder / "labels.jsonl").exists()


def test_the_least_certain_and_most_different_comes_next() -> None:
    def said(second: float, *signatures: str) -> Diagnosis:
        found = diagnose(["ok"])
        found.candidates = [{"category": "a", "probability": 1 - second}, {"category": "b", "probability": second}]
        found.failures = [{"signature": s} for s in signatures]
        return found

    waiting = {"sure": said(0.01, "x"), "doubtful": said(0.45, "y"), "alike": said(0.49, "z")}
    assert next_to_label(waiting, [said(0.4, "z")]) == "doubtful"
    assert next_to_label(waiting, []) == "alike"
    assert next_to_label({"b": waiting["sure"], "a": waiting["sure"]}, []) == "a"
