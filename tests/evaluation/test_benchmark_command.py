"""``ddpclassify benchmark``."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

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
    assert lines[2].split() == ["model", "rules", "guide", "launcher"]
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
    assert list(report["tools"]) == ["rules", "guide", "launcher", "first"]
    assert report["tools"]["rules"]["metrics"]["category_acc"]["value"] == 1
    assert report["tools"]["rules"]["metrics"]["top2_acc"] == {"value": None, "low": None, "high": None, "n": 0}
    assert report["groups"]["launcher"]["oo"]["rules"]["culprit_exact"] == 1
    assert {error["tool"] for error in report["errors"]} <= set(report["tools"])
    first = report["tools"]["first"]["metrics"]
    assert first["category_acc"]["value"] is first["macro_f1"]["value"] is None, "it names none"
    assert first["culprit_exact"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    (guide, launcher, _) = report["comparisons"]
    assert set(guide["tests"]) == {"category_acc", "culprit_exact", "evidence_hit"}
    assert set(launcher["tests"]) == {"culprit_exact", "evidence_hit"}


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


def test_pictures_and_report_are_kept(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddpclassify, "load_model", lambda path: FakeModel(), raising=False)
    out = tmp_path / "out"
    assert run(corpus, "-o", out).exit_code == 0
    assert sorted(p.name for p in out.iterdir()) == ["guide.svg", "model.svg", "report.json", "rules.svg"]
    report = json.loads((out / "report.json").read_text())
    assert report["tools"]["model"]["reliability"]["expected_calibration_error"] == pytest.approx(0.1)
    svg = ElementTree.parse(out / "model.svg").getroot()
    said = [each.text for each in svg.iter() if each.tag.endswith("title")]
    assert {
        "cuda_oom → cuda_oom: 1 of 1",
        "code_error → code_error: 1 of 1",
        "no_failure → (no answer): 1 of 1",
        "from 0.9: 1.00 of 2 logs right",
    } == set(said)


def test_held_out_answers_never_saw_the_group(tmp_path: Path) -> None:
    """Under one launcher the words mean the opposite: who never saw it has all of its logs wrong."""
    corpus = _of_launchers(tmp_path / "corpus", ("red", "blue", "green", "grey"))
    twice: list[str | Path] = ["--with", corpus]
    for more in ([], twice):  # what is learned as well leaves the group out, too
        result = run(corpus, "--held-out", "launcher", "--no-cache", "-j", "1", "--json", "--errors", *more)
        assert result.exit_code == 0, result.output + str(result.exception)
        report = json.loads(result.stdout)
        assert report["corpus"].endswith("by models that saw no such launcher")
        wrong = {e["log"] for e in report["errors"] if e["tool"] == "model" and "category" in e["wrong"]}
        assert wrong == {f"red-{category}-{n}.log" for category in ("cuda_oom", "code_error") for n in range(4)}
        assert report["tools"]["model"]["seconds_per_log"] is None


def test_held_out_answers_learn_from_other_corpora(tmp_path: Path) -> None:
    """Others than the launcher that differs use its words as it does: now it is the others' that are wrong."""
    corpus = _of_launchers(tmp_path / "corpus", ("red", "blue"))
    more = _of_launchers(tmp_path / "more", ("ruby", "rust", "rose"), odd=("ruby", "rust", "rose"))
    result = run(corpus, "--held-out", "launcher", "--with", more, "--no-cache", "-j", "1", "--json", "--errors")
    wrong = {e["log"] for e in json.loads(result.stdout)["errors"] if e["tool"] == "model" and "category" in e["wrong"]}
    assert {log.split("-")[0] for log in wrong} == {"blue"}


def _of_launchers(corpus: Path, launchers: tuple[str, ...], odd: tuple[str, ...] = ("red",)) -> Path:
    corpus.mkdir()
    rows = []
    for launcher in launchers:
        for n in range(4):
            for category in ("cuda_oom", "code_error"):
                word = "quux" if (category == "cuda_oom") == (launcher in odd) else "frob"
                lines = [f"[rank{r}]: step {n}" for r in (0, 1)]
                lines += [f"[rank1]: RuntimeError: {word}", "[rank0]: RuntimeError: Connection closed by peer"]
                log = f"{launcher}-{category}-{n}.log"
                (corpus / log).write_text("\n".join(lines))
                row = {"log": log, "category": category, "launcher": launcher, "evidence_lines": [3]}
                everyone = n == 0
                row |= {"scope": "all" if everyone else "ranks", "culprit_ranks": [] if everyone else [1]}
                rows.append(json.dumps(row))
    (corpus / "labels.jsonl").write_text("\n".join(rows))
    return corpus


def test_wrong_usage(corpus: Path, tmp_path: Path) -> None:
    assert run(corpus, "--no-model", "--model", tmp_path).exit_code == 2
    assert run(corpus, "--no-model", "--held-out", "launcher").exit_code == 2
    assert run(corpus, "--held-out", "colour").exit_code == 2
    assert run(corpus, "--with", corpus).exit_code == 2
    assert run(corpus, "--no-model", "--predictions", "rules=x.jsonl").exit_code == 2
    (corpus / "labels.jsonl").write_text("{}")
    result = run(corpus, "--no-model")
    assert (result.exit_code, "labels.jsonl:1: 'log' is missing" in result.stderr) == (1, True)
