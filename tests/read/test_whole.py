"""What the scan keeps of a log leads to the diagnosis that all of its lines would lead to."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from ddpclassify import load_model
from ddpclassify.generate.rendered.render import render_corpus
from ddpclassify.read.scan import HEAD, TAIL

scan = importlib.import_module("ddpclassify.read.scan")
LOGS = 24


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Rendered logs of all categories, their failures far from both ends between lines that nobody needs."""
    corpus = tmp_path_factory.mktemp("rendered")
    render_corpus(corpus, LOGS, 11, workers=1)
    paths = [corpus / json.loads(row)["log"] for row in (corpus / "labels.jsonl").read_text("utf-8").splitlines()]
    for path in paths:
        lines = path.read_bytes().splitlines(keepends=True)
        start = len(lines) // 5
        before = [b"reading shard %d of 4000\n" % i for i in range(HEAD + 50)]
        after = [b"flushing buffers, %d left\n" % i for i in range(TAIL + 50)]
        path.write_bytes(b"".join([*lines[:start], *before, *lines[start:], b"\n", *after]))
    return paths


def verdicts(paths: list[Path]) -> list[object]:
    model = load_model()
    found = [model.diagnose(path) for path in paths]
    return [(d.category, d.scope, d.culprit_ranks, [e["line"] for e in d.evidence[:1]]) for d in found]


def test_the_kept_lines_tell_what_all_lines_tell(padded: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    fast = verdicts(padded)
    monkeypatch.setattr(scan, "HEAD", 1 << 30)
    slow = verdicts(padded)
    different = [(path.name, *pair) for path, *pair in zip(padded, fast, slow, strict=True) if pair[0] != pair[1]]
    # A rank that only healthy lines in the middle of a log name is the one thing that the scan can't see.
    assert len(different) <= 1, different
