"""The pages that are made from the program's tables name all of them, and the site builds without a warning."""

from __future__ import annotations

import subprocess
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

from ddpclassify import taxonomy
from ddpclassify.cli import SECTIONS
from ddpclassify.corpus import load_corpus
from ddpclassify.ranks.forms import FORMS

ROOT = Path(__file__).parent.parent.parent
CARDS = {"data/README.md": "scripts/data_card.py", "models/default/README.md": "scripts/model_card.py"}


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    spec = util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
    assert spec and spec.loader
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [name for section in SECTIONS.values() for name in section])
def test_a_command_has_its_help(generated: ModuleType, name: str) -> None:
    page = generated.command(name)
    assert f"Usage: ddpclassify {name}" in page
    assert all(len(line) <= 100 for line in page.splitlines())


def test_every_form_has_a_row_whose_cells_are_four(generated: ModuleType) -> None:
    rows = [line for line in generated.forms().splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(FORMS)
    assert {row.replace("\\|", "").count("|") for row in rows} == {5}


def test_a_category_page_shows_a_log_and_its_answer(generated: ModuleType) -> None:
    example = next(case for case in load_corpus(ROOT / "tests" / "cases") if case.category == "cuda_oom")
    example.row.update(provenance="executed", launcher="torchrun", world_size=8)  # type: ignore[attr-defined]
    page = generated.category("cuda_oom", example)
    assert "culprit: ranks 5" in page and ":emphasize-lines: 22\n" in page and "job.log: cuda_oom" in page
    for told in [*taxonomy.load("cuda_oom").steps, *(reason.id for reason in taxonomy.load("cuda_oom").reasons)]:
        assert told in page


@pytest.mark.parametrize("card", sorted(CARDS))
def test_a_card_is_current(card: str) -> None:
    done = subprocess.run([sys.executable, ROOT / CARDS[card]], capture_output=True, check=True)
    assert done.stdout.decode().rstrip() == (ROOT / card).read_text("utf-8").rstrip(), f"python {CARDS[card]} > {card}"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for package in ("sphinx", "myst_nb", "furo", "sphinx_copybutton"):
        pytest.importorskip(package)
    done = subprocess.run([ROOT / "scripts" / "docs", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in taxonomy.names():
        assert (tmp_path / "generated" / "categories" / f"{name}.html").is_file()
