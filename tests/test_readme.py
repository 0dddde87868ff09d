"""The README shows what the program prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_screen_is_what_predict_prints() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    command, _, screen = text.partition("```text\n$ ")[2].partition("```")[0].partition("\n")
    program, *args = command.split()
    assert program == "ddpclassify"
    done = subprocess.run(
        [sys.executable, "-m", program, *args],
        cwd=ROOT, env={**os.environ, "COLUMNS": "80"}, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.decode() == screen


@pytest.mark.gloo
def test_the_first_ten_minutes_are_what_happens(tmp_path: Path) -> None:
    """The transcript's commands are run again; numbers, times and the host may be others."""
    pytest.importorskip("torch")
    transcript = (ROOT / "README.md").read_text("utf-8").partition("```console\n")[2].partition("```")[0]
    commands = [line[2:] for line in transcript.splitlines() if line.startswith("$ ")][1:]  # not the installation
    shutil.copy(ROOT / "examples" / "first" / "train.py", tmp_path)
    python = sys.executable
    tools = f'ddpclassify() {{ "{python}" -m ddpclassify "$@"; }}\n'
    script = tools + "\n".join(commands).replace("-- torchrun", f'-- "{python}" -m torch.distributed.run')
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (tmp_path / "report.html").is_file()
    for start in (
        "  Input data missing or bad",
        "           > numbers = Path",
        "wrote report",
    ):
        assert start in transcript
        assert start in done.stdout
    # As the README says, another rank may be named beside the right one.
    assert re.search(r"^ {2}who +(rank 3|ranks [0-2][-,] ?3) of 4 on ", done.stdout, re.M)
    assert re.search(r"^ {2}proof +line \d+, rank 3: FileNotFoundError", done.stdout, re.M)
