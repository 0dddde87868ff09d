"""A small corpus really generated: twelve jobs under four launchers, each label held to its log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpclassify.corpus.check import check
from ddpclassify.generate.jobs import make_plan, run_all


@pytest.mark.parametrize(("launcher", "seed"), [("torchrun", 1), ("torchrun-tee", 2), ("spawn", 3), ("shell", 4)])
def test_a_small_corpus_of_each_launcher(launcher: str, seed: int, tmp_path: Path) -> None:
    """Three faults drawn from all, run for real: those that showed have labels that fit their logs."""
    pytest.importorskip("torch")
    jobs = make_plan(3, seed, launcher_glob=launcher, ranks=(2, 3))
    assert run_all(jobs, tmp_path) >= 1  # on a busy machine a job may reach its time limit before its fault
    assert list(check(tmp_path)) == []
    for line in (tmp_path / "labels.jsonl").read_text().splitlines():
        label = json.loads(line)
        (job,) = (job for job in jobs if label["log"] == f"logs/{job.name}.log")
        assert (label["template"], label["launcher_form"]) == (job.fault.id, launcher)
