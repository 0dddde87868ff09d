"""The README shows what the program prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
