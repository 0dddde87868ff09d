"""What the scan keeps of a log leads to the diagnosis that all of its lines would lead to."""

from __future__ import annotations

import importlib
import json
import tarfile
from itertools import islice
from pathlib import Path

import pytest

from ddpclassify import load_model
from ddpclassify.generate.rendered.render import render_corpus
from ddpclassify.read.scan import HEAD, TAIL

ROOT = Path(__file__).parents[2]
scan = importlib.import_module("ddpclassify.read.scan")
LOGS = 24
DRAWN = 50  # of each corpus


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


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The kept cases, and logs of both corpora that the model is trained on, as they are."""
    folder = tmp_path_factory.mktemp("drawn")
    drawn: list[Path] = []
    for corpus in ("executed", "rendered"):
        with tarfile.open(ROOT / "data" / f"{corpus}.tar.xz") as packed:
            for member in islice((m for m in packed if m.name.endswith(".log")), DRAWN):
                content = packed.extractfile(member)
                assert content is not None
                drawn.append(folder / f"{corpus}{len(drawn)}.log")
                drawn[-1].write_bytes(content.read())
    assert len(drawn) == 2 * DRAWN
    return [*sorted((ROOT / "tests" / "cases").glob("*.log")), *drawn]


def test_known_logs_get_the_diagnosis_of_the_slow_path(known: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "HEAD", 5)  # else the ends alone would hold all of a short log
    monkeypatch.setattr(scan, "TAIL", 5)
    fast = verdicts(known)
    monkeypatch.setattr(scan, "HEAD", 1 << 30)
    slow = verdicts(known)
    different = [(path.name, *pair) for path, *pair in zip(known, fast, slow, strict=True) if pair[0] != pair[1]]
    assert len(different) <= 5, different
