"""Every diff of the hand-written pages is applied and every command run, page by page, in a copy of the repository.

A comment before a block tells what is special: ``<!-- run by FILE -->`` names what runs it instead, ``<!-- needs
torch -->`` what it needs.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from ddpclassify.generate.rendered.render import render_corpus

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^``` ?(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
COPIED = ("src", "tests", "models", "notebooks", "pyproject.toml", "README.md")
LINKED = ("examples", "scripts")


class Block(NamedTuple):
    kind: str
    text: str
    note: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page that somebody may want to run."""
    found = (Block(m["kind"], m["text"], m["note"] or "") for m in BLOCK.finditer(page.read_text("utf-8")))
    return [block for block in found if block.kind in ("sh", "console", "diff", "python")]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the repository with the logs that the pages speak of."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_check*"))
        else:
            shutil.copy(ROOT / name, tmp_path)
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    render_corpus(tmp_path / "small", 100, 0)  # training on the real ones takes minutes
    (tmp_path / "data").mkdir()
    for name in ("executed", "rendered"):
        with tarfile.open(tmp_path / "data" / f"{name}.tar.xz", "w:xz", preset=0) as packed:
            packed.add(tmp_path / "small", name)
    log = (ROOT / "tests" / "cases" / "oom-one-of-eight-then-watchdogs.log").read_bytes()
    for name in ("job.log", "logs/rank0.log", "many-logs/a.log", "many-logs/b.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(log)
    (tmp_path / "good.log").write_text("step 1 loss 0.5\nWARNING: upload failed\nstep 2 loss 0.4\nTraining complete\n")
    (tmp_path / "job.log.gz").write_bytes(gzip.compress(log))
    return tmp_path


def run(block: Block, house: Path) -> None:
    """Apply or run one block."""
    environment = {**os.environ, "PYTHONPATH": str(house / "src"), "OMP_NUM_THREADS": "1"}
    tools = f'ddpclassify() {{ "{sys.executable}" -m ddpclassify "$@"; }}\n'
    tools += f'python() {{ "{sys.executable}" "$@"; }}\npytest() {{ python -m pytest -p no:cacheprovider "$@"; }}\n'
    command = {
        "diff": ["git", "apply", "-"],
        "python": [sys.executable, "-"],
    }.get(block.kind, ["bash", "-euo", "pipefail", "-c", tools + block.text])
    done = subprocess.run(
        command, cwd=house, env=environment, input=block.text, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{block.text}\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_runs(page: Path, house: Path) -> None:
    for block in blocks(page):
        if block.note.startswith("run by "):
            assert (ROOT / block.note.split()[2]).is_file()
        elif block.note != "needs torch" or find_spec("torch") is not None:
            run(block, house)


def test_no_block_slips_through() -> None:
    """The expression finds as many blocks as there are fences of these kinds."""
    for page in PAGES:
        fences = re.findall(r"^``` ?(?:sh|console|diff|python|bash|shell)$", page.read_text("utf-8"), re.M)
        assert len(fences) == len(blocks(page)), page.name
