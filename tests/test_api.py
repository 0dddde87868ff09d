"""The Python names that others rely on."""

from __future__ import annotations

from pathlib import Path

import ddpclassify

CASE = Path(__file__).parent / "cases" / "oom-one-of-eight-then-watchdogs.log"


def test_names_stay_what_they_are_after_use() -> None:
    """No stage's package may take the place of a function of the same name."""
    first = ddpclassify.diagnose(CASE)
    again = ddpclassify.diagnose(str(CASE))
    assert first.to_dict() | {"source": ""} == again.to_dict() | {"source": ""}
    assert isinstance(first, ddpclassify.Diagnosis)
    assert ddpclassify.load_model().diagnose(CASE.read_text().split("\n")).culprit_ranks == [5]


def test_a_diagnosis_shows_itself_in_a_notebook() -> None:
    html = ddpclassify.diagnose(["<script>alert(1)</script>", "ValueError: <b>"])._repr_html_()
    assert "<script>" not in html
    assert html.startswith("<div ")
