"""The programs that are run: they stand on their own, take faults and noise, and are drawn as they can be."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ddpclassify.generate.jobs import faults, make_plan
from ddpclassify.generate.jobs.plan import (
    HERE,
    Remark,
    files_of,
    installed,
    noises,
    script_of,
    source,
    suits,
    undefined,
)
from ddpclassify.generate.jobs.workloads import WORKLOADS, Workload

HEALTHY = next(fault for fault in faults() if fault.id == "run-ok")


def test_the_table_and_the_files_are_the_same_set() -> None:
    assert set(WORKLOADS) == {path.stem for path in (HERE / "workloads").glob("[a-z]*.py")}
    assert len(WORKLOADS) >= 12


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_workload_has_the_names_that_faults_use(name: str) -> None:
    job = replace(make_plan(1, 0, launcher_glob="shell")[0], fault=HEALTHY, workload=name, remarks=())
    for part in files_of("train.py", script_of(job, {})).values():
        assert undefined(part) == set()
    assert sum(suits(fault, WORKLOADS[name]) for fault in faults()) >= len(faults()) / 3
    assert "finished" in source(name)  # how a healthy run is told


def test_a_fault_is_kept_from_a_workload_without_its_names() -> None:
    by_id = {fault.id: fault for fault in faults()}
    needs_json = by_id["run-data-json"]
    assert suits(needs_json, WORKLOADS["trainer"]) and not suits(needs_json, WORKLOADS["manual"])
    assert suits(by_id["run-code-name"], WORKLOADS["manual"])  # to lack a name is its point


def test_a_program_of_several_files_is_written_as_such() -> None:
    assert set(files_of("main.py", source("project"))) == {"main.py", "engine/config.py", "engine/model.py"}
    assert files_of("main.py", source("manual")) == {"main.py": source("manual")}


def test_a_workload_without_its_packages_is_not_drawn() -> None:
    assert not installed(Workload("far", needs=("no_such_package_anywhere",)))
    missing = {name for name, workload in WORKLOADS.items() if not installed(workload)}
    drawn = {job.workload for job in make_plan(200, 1, launcher_glob="shell")}
    assert drawn.isdisjoint(missing) and len(drawn) >= 6


def test_noise_is_said_by_its_ranks_as_the_workload_logs() -> None:
    noise = next(row for row in noises() if "{rank}" in row.text and row.via == "say" and row.slot == "step")
    job = replace(
        make_plan(1, 0, launcher_glob="shell")[0],
        fault=HEALTHY,
        workload="images",
        remarks=(Remark(noise, (1, 2), 5),),
    )
    text = script_of(job, {})
    assert f"if rank in {{1, 2}} and step == 5:\n                log.warning(f{noise.text!r})" in text
    assert noise.text not in script_of(replace(job, remarks=()), {})


def test_noise_never_passes_for_the_evidence_of_its_job() -> None:
    plan = make_plan(300, 2, launcher_glob="shell")
    assert any(job.remarks for job in plan) and any(not job.remarks for job in plan)
    for job in plan:
        for remark in job.remarks:
            assert not (job.fault.evidence and re.search(job.fault.evidence, remark.noise.text)), job.fault.id
            assert set(remark.ranks) <= set(range(job.ranks))
