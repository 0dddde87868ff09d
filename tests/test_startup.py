"""What starting the program may import: a fresh interpreter runs each command and tells its modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASE = Path(__file__).parent / "cases" / "oom-one-of-eight-then-watchdogs.log"
HEAVY = {"numpy", "scipy", "sklearn", "joblib", "torch", "rich", "pandas"}
STAGES = {f"ddpclassify.{name}" for name in ("read", "ranks", "events", "fold", "features", "model", "diagnosis")}
WHEN_ASKED = {"ddpclassify.model.healthy", "ddpclassify.diagnosis.explanation", "ddpclassify.report.why"}
ELSEWHERE = {f"ddpclassify.{name}" for name in ("baselines", "corpus", "evaluation", "generate", "page", "train")}


def modules(*args: str) -> set[str]:
    code = (
        "import sys; sys.argv = ['ddpclassify'] + sys.argv[1:]\nfrom ddpclassify.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["predict", "--help"]])
def test_help_needs_only_the_command_line(args: list[str]) -> None:
    assert not modules(*args) & (HEAVY | STAGES | ELSEWHERE | {"hashlib", "tomllib"})


def test_predict_needs_only_the_stages() -> None:
    found = modules("predict", str(CASE))
    assert found >= STAGES
    assert not found & (
        HEAVY | ELSEWHERE | WHEN_ASKED | {"zipfile", "multiprocessing", "concurrent.futures", "bz2", "lzma", "gzip"}
    )
