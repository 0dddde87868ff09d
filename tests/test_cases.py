"""The kept cases: each log in `cases/` gets the diagnosis written into it (see its README)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpclassify import load_model

CASES = sorted((Path(__file__).parent / "cases").glob("*.log"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case_gets_its_verdict(path: Path) -> None:
    head, *lines = path.read_text("utf-8").split("\n")
    category, scope, ranks = head.removeprefix("#= ").split()
    proof = {n for n, line in enumerate(lines, 1) if line.startswith("#> ")}
    diagnosis = load_model().diagnose([line.removeprefix("#> ") for line in lines])
    wanted = (category, scope, [] if ranks == "-" else [int(r) for r in ranks.split(",")])
    assert (diagnosis.category, diagnosis.scope, diagnosis.culprit_ranks) == wanted
    assert not proof or proof & {e["line"] for e in diagnosis.evidence}


def test_the_guides_example_folds_into_one_failure() -> None:
    path = next(p for p in CASES if p.stem == "nameerror-three-ranks-interleaved")
    lines = [line.removeprefix("#> ") for line in path.read_text().split("\n")[1:]]
    failures = load_model().diagnose(lines).failures
    named = [f for f in failures if f["exception"] == "NameError"]
    assert [(f["count"], f["role"]) for f in named] == [(3, "cause")]
