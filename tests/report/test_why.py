"""The lines of ``--explain`` on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpclassify import language, load_model
from ddpclassify.report import text_report
from ddpclassify.report.words import columns

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*.log"))
HEALTHY = [f"[rank0]: epoch 0 step {i} loss {3 - i / 100:.3f}" for i in range(200)] + ["Training complete"]


@pytest.mark.parametrize("spoken", language.LANGUAGES)
@pytest.mark.parametrize("log", [*CASES, HEALTHY, []], ids=[*(path.stem for path in CASES), "healthy", "empty"])
def test_it_follows_the_answer_and_fits(log: Path | list[str], spoken: str) -> None:
    language.use(spoken)
    try:
        folded, diagnosis = load_model().explain(log, weights=True)
        lines = text_report(diagnosis, folded=folded).splitlines()
        plain = text_report(load_model().diagnose(log), folded=folded).splitlines()
        head = language.say("why")
    finally:
        language.use("en")
    assert lines[: len(plain)] == plain
    shown = lines[len(plain) :]
    assert sum(line.startswith(f"  {head}") for line in shown) == len(diagnosis.explanation or {})
    assert max(map(columns, shown)) <= 80


def test_a_few_lines_for_and_against() -> None:
    _, diagnosis = load_model().explain(CASES[1], weights=True)
    assert diagnosis.explanation is not None
    category = diagnosis.explanation["category"]
    shown = text_report(diagnosis).partition("\n  why ")[2].splitlines()
    assert shown[0].strip() == f"category: cuda_oom rather than {category['over']}, {category['score']:+.2f} in all"
    assert shown[1].split() == ["for", f"{category['for'][0]['weight']:+.2f}", "cue:", "cuda_oom"]
    weights = [line[11:12] for line in shown[1:9]]
    assert weights == ["+"] * 5 + ["-"] * 3
    assert shown[9].startswith("  why      cause: line 22, rank 5 rather than line 23, ranks 0-4, 6-7")


def test_no_word_steers_the_terminal() -> None:
    _, diagnosis = load_model().explain(CASES[1], weights=True)
    assert diagnosis.explanation is not None
    term = diagnosis.explanation["category"]["for"][0]
    term["name"] = "\x1b[2Jboo\u202e" + "x" * 300
    shown = text_report(diagnosis)
    assert not set(shown) & {"\x1b", "\u202e"}
    assert max(map(len, shown.splitlines())) <= 80
