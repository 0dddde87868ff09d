"""The jobs that are really run: the plan, the scripts, the labels, and two runs."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ddpclassify import taxonomy
from ddpclassify.cli.generate import generate
from ddpclassify.generate.jobs import JobPlan, faults, make_plan, run_all
from ddpclassify.generate.jobs.labelling import label_of
from ddpclassify.generate.jobs.plan import script_of, suits
from ddpclassify.generate.jobs.workloads import WORKLOADS

BROKEN_ON_PURPOSE = {"run-code-syntax", "run-code-indent"}


@pytest.fixture(scope="module")
def plan() -> list[JobPlan]:
    return make_plan(60, 5, launcher_glob="shell")


def test_the_same_seed_draws_the_same_jobs(plan: list[JobPlan]) -> None:
    assert plan == make_plan(60, 5, launcher_glob="shell")
    assert plan != make_plan(60, 6, launcher_glob="shell")


def test_every_fault_has_a_known_category_and_a_place() -> None:
    assert len({fault.id for fault in faults()}) == len(faults())
    for fault in faults():
        known = {reason.id for reason in taxonomy.load(fault.category).reasons}
        assert fault.reason in known, fault.id
        assert any(suits(fault, workload) for workload in WORKLOADS.values()), fault.id


def test_every_fault_fits_into_its_workloads(plan: list[JobPlan]) -> None:
    for fault in faults():
        for workload in WORKLOADS.values():
            if not suits(fault, workload) or fault.id in BROKEN_ON_PURPOSE:
                continue
            text = script_of(replace(plan[0], fault=fault, workload=workload.name), {"PORT2": 1, "HTTP": 2})
            ast.parse(text)
            assert "# @" not in text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--faults run-nothing", "no fault fits 'run-nothing'"),
        ("--launchers carrier-pigeon", "no launcher that can be used here fits 'carrier-pigeon'"),
        ("--faults run-launch-nnodes --launchers shell", "can start a job with one of these faults"),
        ("--rendered --faults nothing-*", "no fault fits 'nothing-*'"),
        ("--rendered --launchers shell", "not with --rendered"),
    ],
)
def test_a_choice_that_leaves_nothing_is_refused(options: str, problem: str) -> None:
    result = CliRunner().invoke(generate, [*options.split(), "--dry-run"])
    assert result.exit_code == 2
    assert problem in result.output


def test_a_log_that_does_not_show_its_fault_has_no_label(plan: list[JobPlan]) -> None:
    fault = next(fault for fault in faults() if fault.id == "run-code-none")
    job = replace(plan[0], fault=fault, ranks=2, victim=1)
    assert label_of(job, b"[rank1]: Traceback\n[rank1]: ValueError: something else\n") is None


def test_two_jobs_really_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    chosen = make_plan(2, 0, "run-code-none", "torchrun", (2,))
    assert run_all(chosen[:1], tmp_path) == 1
    assert run_all(chosen, tmp_path) == 1  # the first is there already
    labels = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [label["log"] for label in labels] == ["logs/00000.log", "logs/00001.log"]
    for label in labels:
        assert (label["category"], label["scope"], label["provenance"]) == ("code_error", "ranks", "executed")
        lines = (tmp_path / label["log"]).read_text().split("\n")
        assert all("AttributeError" in lines[number - 1] for number in label["evidence_lines"])
        assert str(tmp_path) not in "\n".join(lines)
