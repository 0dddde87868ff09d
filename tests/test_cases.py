"""The kept cases: each log in `cases/` gets the diagnosis that its label says (see its README)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpclassify import load_model
from ddpclassify.corpus import Labelled, load_corpus

CASES = load_corpus(Path(__file__).parent / "cases")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.log)
def test_case_gets_its_verdict(case: Labelled) -> None:
    diagnosis = load_model().diagnose(case.path)
    got = (diagnosis.category, diagnosis.scope, tuple(diagnosis.culprit_ranks))
    assert got == (case.category, case.scope, case.culprit_ranks)
    assert set(case.evidence_lines) & {str(e["line"]) for e in diagnosis.evidence}


def test_the_guides_example_folds_into_one_failure() -> None:
    path = next(case.path for case in CASES if case.log.startswith("nameerror-three-ranks"))
    named = [f for f in load_model().diagnose(path).failures if f["exception"] == "NameError"]
    assert [(f["count"], f["role"]) for f in named] == [(3, "cause")]
