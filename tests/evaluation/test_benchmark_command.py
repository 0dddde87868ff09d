"""``ddpclassify benchmark``."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

import ddpclassify
from ddpclassify.cli.benchmark import benchmark

LOGS = {
    "oom.log": ("cuda_oom", "ranks", [1], [2], "[rank0]: step 1\n[rank1]: RuntimeError: CUDA out of memory.\n"),
    "name.log": ("code_error", "all", [], [1, 2], "NameError: name 'c'\nNameError: name 'c'\n"),
    "fine.log": ("no_failure", "none", [], [], "step 1\ntraining complete\n"),
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    rows = []
    for log, (category, scope, ranks, lines, text) in LOGS.items():
        (folder / log).write_text(text)
        row = {"log": log, "category": category, "scope": scope, "culprit_ranks": ranks, "evidence_lines": lines}
        rows.append(json.dumps(row | {"launcher": log[:2]}))
    (folder / "labels.jsonl").write_text("\n".join(rows))
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(benchmark, [str(each) for each in arguments])


class FakeModel:
    def diagnose(self, path: Path) -> SimpleNamespace:
        if path.name == "fine.log":
            raise ddpclassify.InputError("fine.log: can't be read")
        category, scope, ranks, lines, _ = LOGS[path.name]
        candidates = [{"category": category, "probability": 0.9}]
        evidence = [{"line": line, "file": None} for line in lines]
        return SimpleNamespace(
            category=category,
            scope=scope,
            culprit_ranks=ranks,
            evidence=evidence,
            confidence=0.9,
            candidates=candidates,
        )


def test_tables(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddpclassify, "load_model", lambda path: FakeModel(), raising=False)
    result = run(corpus)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].endswith("corpus: 3 logs, 3 categories; 95 % intervals")
    assert lines[2].split() == ["model", "rules", "guide"]
    assert lines[3].split()[:3] == ["category", "right", "0.667"]
    assert max(map(len, lines)) < 100
    assert not any(line != line.rstrip() for line in lines)
    for wanted in ("model – rules", "no_failure         → (no answer)", "by category", "by launcher"):
        assert wanted in result.stdout
    assert "by damage" not in result.stdout
    assert "fine.log: can't be read" in result.stderr


def test_json_without_a_model(corpus: Path) -> None:
    result = run(corpus, "--no-model", "--json", "--errors")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["schema"] == "ddpclassify.benchmark/1"
    assert list(report["tools"]) == ["rules", "guide"]
    assert report["tools"]["rules"]["metrics"]["category_acc"]["value"] == 1
    assert report["tools"]["rules"]["metrics"]["top2_acc"] == {"value": None, "low": None, "high": None, "n": 0}
    assert report["groups"]["launcher"]["oo"]["rules"]["culprit_exact"] == 1
    assert {error["tool"] for error in report["errors"]} <= {"rules", "guide"}


def test_other_tools_answers(corpus: Path, tmp_path: Path) -> None:
    ordered, named = tmp_path / "theirs.jsonl", tmp_path / "named.jsonl"
    ordered.write_text("\n".join(json.dumps({"category": LOGS[log][0]}) for log in LOGS))
    named.write_text("\n".join(json.dumps({"log": log, "category": "code_error"}) for log in reversed(LOGS)))
    result = run(corpus, "--no-model", "--json", "--predictions", ordered, "--predictions", f"b={named}")
    tools = json.loads(result.stdout)["tools"]
    assert tools["theirs"]["metrics"]["category_acc"]["value"] == 1
    assert tools["b"]["metrics"]["category_acc"]["value"] == pytest.approx(1 / 3, abs=1e-4)
    assert tools["b"]["seconds_per_log"] is None


def test_errors_are_listed(corpus: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "t.jsonl"
    theirs.write_text('{"category": "cuda_oom"}\n' * 3)
    result = run(corpus, "--no-model", "--errors", "--predictions", theirs)
    assert "t name.log: label code_error all[] @1,2; answer cuda_oom None[] @-" in result.stdout


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}\n", "1 answers for 3 logs"),
        ("nonsense\n", "t.jsonl:1: not JSON"),
        ('{"log": "x"}\n', "no answer for oom.log"),
    ],
)
def test_unfit_answers(corpus: Path, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    result = run(corpus, "--no-model", "--predictions", tmp_path / "t.jsonl")
    assert result.exit_code == 1
    assert problem in result.stderr
    assert "Traceback" not in result.stderr


def test_wrong_usage(corpus: Path, tmp_path: Path) -> None:
    assert run(corpus, "--no-model", "--model", tmp_path).exit_code == 2
    assert run(corpus, "--no-model", "--predictions", "rules=x.jsonl").exit_code == 2
    (corpus / "labels.jsonl").write_text("{}")
    result = run(corpus, "--no-model")
    assert (result.exit_code, "labels.jsonl:1: 'log' is missing" in result.stderr) == (1, True)
