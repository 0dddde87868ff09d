"""`benchmarks/variants.py`: its first row is what training itself finds, and the others are of the same logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from ddpclassify.generate.rendered.render import render_corpus
from ddpclassify.train import fit, load_samples

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_every_variant_has_a_row_and_the_first_is_the_model_as_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    import tried
    import variants

    corpus, also = tmp_path / "corpus", tmp_path / "also"
    categories = ["code_error", "cuda_oom", "preempted"]
    render_corpus(corpus, 90, 5, categories=categories, workers=1)
    render_corpus(also, 6, 6, categories=categories, workers=1)
    variants.main([str(corpus), "--also", str(also)])
    head, ruler, *lines = (line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines())
    table = {line[0]: line for line in lines if not line[0].startswith("**")}
    assert list(table) == [name for section in tried.VARIANTS.values() for name in section]
    assert {len(line) for line in table.values()} == {len(head)} == {len(ruler)}
    right = {name: line[head.index("right")] for name, line in table.items()}
    found = fit(load_samples([corpus])).held_out["category_accuracy"]
    assert right["linear SVC, C = 0.3, words of the likeliest cause"] == f"{found:.3f}" != "1.000"
    assert len(set(right.values())) > 5
    assert {line[head.index("executed: right")] for line in table.values()} == {"–"}


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
