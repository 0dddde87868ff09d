"""The Spark example, on a local Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"


def test_spark_gives_a_row_a_log(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    good, gone, out = CASES / "oom-one-of-eight-then-watchdogs.log", tmp_path / "gone.log", tmp_path / "out"
    subprocess.run(
        [sys.executable, ROOT / "examples" / "spark" / "diagnose.py", out, good, gone],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        check=True,
        timeout=300,
    )
    rows = {row["log"]: row for row in parquet.read_table(out).to_pylist()}
    assert rows[str(good)]["category"] == "cuda_oom"
    assert rows[str(good)]["culprit_ranks"] == [5]
    assert "gone.log" in rows[str(gone)]["error"]
