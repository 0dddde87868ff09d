"""``ddpclassify train`` on a house's own logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ddpclassify import load_model
from ddpclassify.api import default_folder
from ddpclassify.cli.train import train
from ddpclassify.features import Described
from ddpclassify.model import load
from ddpclassify.train import builtin, cache, fit, load_samples, weights_of
from ddpclassify.train.compare import MARKS, marks_of_model, read_marks, sample_key
from ddpclassify.types import InputError

Build = Callable[..., Path]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(train, [*map(str, arguments), "--no-cache", "-j", "1"])


def test_a_house_learns_its_own_category(house: Build, tmp_path: Path) -> None:
    other = house("known", categories=("cuda_oom", "code_error"))
    own = house("own", categories=("licence_denied",))
    result = run(own, "--with", other, "--weight", "own=2", "-o", tmp_path / "model", "--json", "--name", "ours")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["logs"] == 8
    assert report["new"] == {"category": 1.0, "culprit": 1.0, "evidence": 1.0}
    assert report["old"]["category"] == 0.0
    got = load_model(tmp_path / "model").diagnose(own / "licence_denied-3.log")
    assert (got.category, got.scope, got.culprit_ranks, got.evidence[0]["line"]) == ("licence_denied", "ranks", [1], 10)
    assert got.advice == {"first_check": "lmstat -a", "steps": ["Wait for a seat."]}
    assert got.model["name"] == "ours"
    card = json.loads((tmp_path / "model" / "card.json").read_text())
    assert card["corpus"]["corpora"] == {"known": 16, "own": 8}
    assert card["corpus"]["weights"] == {"own": 2.0}


def test_equal_corpora_give_equal_bytes(house: Build, tmp_path: Path) -> None:
    corpus = house()
    for name in ("a", "b"):
        assert run(corpus, "-o", tmp_path / name).exit_code == 0
    for file in ("model.bin", "card.json", MARKS):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_better_model_stays(house: Build, tmp_path: Path) -> None:
    corpus, model = house(), tmp_path / "model"
    assert run(corpus, "-o", model).exit_code == 0
    before = (model / "model.bin").read_bytes()
    worse = ("--weight", "licence_denied=1e-5")
    result = run(corpus, "-o", model, *worse)
    assert result.exit_code == 1
    assert "--force overwrites it" in str(result.exception)
    assert (model / "model.bin").read_bytes() == before
    assert run(corpus, "-o", model, *worse, "--force").exit_code == 0
    assert (model / "model.bin").read_bytes() != before
    assert run(corpus, "-o", model).exit_code == 0, "a better one takes its place"


def test_a_model_without_held_out_answers_is_not_asked_what_it_was_taught(house: Build, tmp_path: Path) -> None:
    corpus, model = house(), tmp_path / "model"
    assert run(corpus, "-o", model).exit_code == 0
    (model / MARKS).unlink()
    result = run(corpus, "-o", model, "--weight", "licence_denied=1e-5", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["old"] is None


def test_labels_may_hold_the_category_only(house: Build, tmp_path: Path) -> None:
    """What they don't tell is taken from the built-in model."""
    corpus = house(scope=None, culprit_ranks=None, evidence_lines=None)
    result = run(corpus, "-o", tmp_path / "model")
    assert result.exit_code == 0, result.output
    assert [line.split()[:2] for line in result.stdout.splitlines()[2:5]] == [
        ["category", "24"],
        ["culprit", "0"],
        ["evidence", "0"],
    ]
    got = load_model(tmp_path / "model").diagnose(corpus / "licence_denied-3.log")
    assert (got.category, got.culprit_ranks) == ("licence_denied", [1])
    assert got.evidence[0]["line"] == 10
    assert load(tmp_path / "model")[0].scope.classes == load_model().parts.scope.classes


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--weight", "hause=2"), "--weight hause: neither a corpus (house) nor a category"),
        (("--weight", "house"), "give NAME=NUMBER"),
        (("--weight", "house=-1"), "a number above 0"),
        (("--cache", "x"), "exclude each other"),
    ],
)
def test_wrong_usage(house: Build, tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    result = run(house(), "-o", tmp_path / "model", *arguments)
    assert result.exit_code
    assert problem in result.output + str(result.exception)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("category", "problem"), [("unknown", "an answer, not a category"), ("cuda_oom", "at least two categories")]
)
def test_labels_that_teach_nothing(house: Build, tmp_path: Path, category: str, problem: str) -> None:
    result = run(house(category=category), "-o", tmp_path / "model")
    assert isinstance(result.exception, InputError)
    assert problem in str(result.exception)


def test_own_advice_is_checked(house: Build, tmp_path: Path) -> None:
    corpus = house()
    (corpus / "categories.toml").write_text("[category.licence_denied]\norigin = 'moon'\n")
    result = run(corpus, "-o", tmp_path / "model")
    assert isinstance(result.exception, InputError)
    assert "categories.toml" in str(result.exception)


def test_a_log_is_read_once(house: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, kept = house(each=2), tmp_path / "kept"
    first = load_samples([corpus], jobs=1, cache=kept)
    read: list[Path] = []
    pipeline = cache.pipeline

    def noted(path: Path) -> Described:
        read.append(path)
        return pipeline(path)

    monkeypatch.setattr(cache, "pipeline", noted)
    again = load_samples([corpus], jobs=1, cache=kept)
    assert not read
    assert [s.described.tokens for s in again] == [s.described.tokens for s in first]
    (log,) = (p for p in corpus.glob("cuda_oom-0.log"))
    log.write_text(log.read_text() + "[rank0]: bye\n")
    (damaged, *_) = sorted(kept.glob("described-*/*"))
    damaged.write_bytes(b"nonsense")
    load_samples([corpus], jobs=1, cache=kept)
    assert log in read
    assert len(read) in (1, 2)  # the damaged file may have been that log's


def test_a_corrected_label_is_another_sample(house: Build) -> None:
    (one, *_) = load_samples([house("a", each=1)], jobs=1)
    (same, *_) = load_samples([house("b", each=1)], jobs=1)
    (corrected, *_) = load_samples([house("c", each=1, culprit_ranks=[0], scope="ranks")], jobs=1)
    assert sample_key(one) == sample_key(same) != sample_key(corrected)


def test_what_the_old_model_was_taught_it_is_not_asked(house: Build) -> None:
    samples = load_samples([house(each=1)], jobs=1)
    known = {sample_key(samples[0]): "000"}
    model = load_model()
    marks = marks_of_model(samples, model.parts, model.card, known)
    assert marks[sample_key(samples[0])] == "000"
    assert marks[sample_key(samples[1])] == "111"  # cuda_oom


def test_damaged_marks_are_none(tmp_path: Path) -> None:
    (tmp_path / MARKS).write_bytes(b"\xff\xfe")
    assert read_marks(tmp_path) == read_marks(tmp_path / "nowhere") == read_marks(None) == {}


def test_weights_multiply(house: Build) -> None:
    samples = load_samples([house(each=1)], jobs=1)
    assert weights_of(samples, {"house": 2, "cuda_oom": 3}) == [2, 6, 2]


def test_builtin_means_its_corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = str(tmp_path)
    names = [path.name for path in builtin.resolve(("builtin", own))]
    assert names == ["executed.tar.xz", "rendered.tar.xz", tmp_path.name]
    monkeypatch.setattr(builtin, "_PLACES", (tmp_path,))
    with pytest.raises(InputError, match="no built-in corpora"):
        builtin.resolve(("builtin",))


def test_the_built_in_model_tells_how_it_did_on_every_log_that_it_learned_from() -> None:
    """Or `--with builtin` would ask it about logs that it knows."""
    folder = default_folder()
    assert folder is not None
    card = json.loads((folder / "card.json").read_text())
    assert len(read_marks(folder)) == card["held_out"]["logs"]


def test_a_category_with_one_template_does_not_make_all_answers_unsure(house: Build) -> None:
    """The folds that are asked about it never saw it: that tells nothing of how sure the others may be."""
    folder = house()
    rows = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    for row in rows:
        if row["category"] == "licence_denied":
            row["template"] = "the only one"
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    training = fit(load_samples([folder], 1), base=load_model().parts)
    known = [a for a in training.held_out["calibration"]["bins"] if a["from"] >= 0.8]
    assert sum(row["logs"] for row in known) == 16
    assert training.held_out["temperature"] < 1
