"""`benchmarks/variants.py`: its first row is what training finds without copies; the others are of the same logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from ddpclassify.generate.rendered.render import render_corpus
from ddpclassify.train import Settings, fit, load_samples

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


CATEGORIES = ["code_error", "cuda_oom", "preempted"]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    render_corpus(tmp_path / "corpus", 90, 5, categories=CATEGORIES, workers=1)
    return tmp_path / "corpus"


def test_the_first_row_is_the_model_as_trained(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import variants

    render_corpus(tmp_path / "also", 6, 6, categories=CATEGORIES, workers=1)
    variants.main([str(corpus), "--also", str(tmp_path / "also"), "--only", "no words"])
    head, ruler, *lines = (line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines())
    as_trained, no_words = (line for line in lines if not line[0].startswith("**"))
    assert len(head) == len(ruler) == len(as_trained) == len(no_words)
    right = head.index("right")
    found = fit(load_samples([corpus]), Settings(dropout=0.0)).held_out["category_accuracy"]
    assert as_trained[right] == f"{found:.3f}" != "1.000"
    assert no_words[right] != as_trained[right]
    assert as_trained[head.index("executed: right")] == "–"
    assert "also, 6 logs" in head


def test_every_variant_can_be_fitted(corpus: Path) -> None:
    import tried
    import variants

    logs = variants.bench([corpus], None, seed=1)
    train, test = logs.folds[0]
    answers = {
        name: logs.probabilities(variant, train, test, CATEGORIES)
        for section in tried.VARIANTS.values()
        for name, variant in section.items()
    }
    assert all(np.allclose(each.sum(axis=1), 1) for each in answers.values())
    assert len({each.tobytes() for each in answers.values()}) > len(answers) - 8  # some do nothing to rendered logs


def test_words_are_chosen_by_what_is_trained_on_and_copies_lose_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import variants

    counts = sparse.csr_matrix(np.array([[1.0, 0, 2, 3], [0, 0, 1, 1], [0, 5, 1, 0]]))
    assert variants.frequent(counts, 2, 9).tolist() == [2, 3]
    assert variants.frequent(counts, 1, 2).tolist() == [1, 2]  # of equal sums the first
    copy = variants.thinned(sparse.csr_matrix(np.ones((50, 50))), 0.3, np.random.default_rng(0))
    assert 0.65 < copy.nnz / 2500 < 0.75
    assert variants.gain(np.array([1.0, 0, 0, -1]), ["a", "b", "c", "d"]).startswith("+0.0 ± ")
    assert variants.gain(np.array([1.0, 1.0]), ["a", "a"]) == "+100.0 ± 0.0"
