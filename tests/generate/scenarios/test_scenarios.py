"""Every scenario, over worlds, eras and seeds, keeps the rules of a label."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import pytest

from ddpclassify.generate.rendered import render
from ddpclassify.generate.rendered.scenarios import MODULES, NEEDS, SCENARIOS
from ddpclassify.generate.rendered.script import SYSTEM, Job, Script

REASONS = {
    "launch_config": "bad_argument missing_environment device_ordinal duplicate_gpu rank_out_of_range node_count "
    "missing_script",
    "rendezvous_error": "port_in_use store_unreachable rendezvous_timeout host_unresolved missing_workers "
    "rendezvous_closed",
    "cuda_oom": "allocation fragmentation shared_gpu library nccl",
    "host_oom": "oom_killer cgroup_limit allocation_failed killed_unconfirmed dataloader_worker ray_memory_monitor",
    "shm_exhausted": "dataloader_bus_error shm_open shm_full nccl_shm",
    "collective_timeout": "missing_rank all_waiting store_wait barrier heartbeat",
    "network_error": "connection_lost infiniband interface no_route remote_error fabric",
    "rank_divergence": "collective_type shape dtype uneven_inputs unused_parameters model_mismatch control_flow",
    "cuda_error": "illegal_access device_assert misaligned launch_failure library unknown",
    "gpu_hardware": "ecc fell_off_bus nvlink xid gpu_lost row_remap",
    "gpu_environment": "driver_too_old no_driver no_gpu no_kernel_image version_mismatch cpu_build fabric_manager",
    "preempted": "scheduler time_limit user_cancelled spot_reclaim hangup",
    "native_crash": "segfault abort heap_corruption illegal_instruction floating_point",
    "node_failure": "node_lost heartbeat_lost pod_evicted ray_node ssh_lost daemon_lost",
    "resource_limit": "open_files threads processes locked_memory semaphores",
    "no_failure": "completed running",
}
TORCH = [
    (1, 8), (1, 9), (1, 10), (1, 12), (1, 13), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (2, 7), (2, 8),
    (2, 9), (2, 11), (2, 13),
]  # fmt: skip
WORLDS = [(1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (4, 2), (6, 1), (8, 1), (8, 2), (8, 4), (16, 2), (32, 4), (64, 8)]
LAUNCHERS = [
    "torchrun", "legacy-launch", "mp.spawn", "accelerate", "lightning", "deepspeed", "mpirun", "srun", "ray", "k8s",
    "shell", "composer",
]  # fmt: skip


PLACEHOLDER = re.compile(r"\{(user|dir|site|file|size|host|local|bus|[rsjnepwxg])\}")


def make_job(rng: random.Random, world: int, nodes: int, torch: tuple[int, int], backend: str, launcher: str) -> Job:
    return Job(
        world, world // nodes, tuple(f"node{i + 1}" for i in range(nodes)), backend, launcher, torch,
        rng.choice([(3, 8), (3, 10), (3, 11), (3, 13)]), "train.py", "/home/amy/seg", "/opt/conda/lib/python3.10/"
        "site-packages",
        tuple(4000 + 7 * rank for rank in range(world)), rng.random() < 0.8,
    )  # fmt: skip


def jobs(name: str, seed: int) -> Iterator[Job]:
    """Jobs of every era that meet the template's needs."""
    rng, needs = random.Random(f"{name}{seed}"), NEEDS[name]
    low = tuple(map(int, str(needs.get("torch_min", ["1.8"])[0]).split(".")))
    high = tuple(map(int, str(needs.get("torch_max", ["9.9"])[0]).split(".")))
    worlds = [(world, nodes) for world, nodes in [*WORLDS, (128, 16)]
              if str(world) in needs.get("world_size", [str(w) for w, _ in WORLDS])
              and str(nodes) in needs.get("nodes", ["1", "2", "4", "8", "16"])]  # fmt: skip
    assert worlds, name
    for torch in TORCH:
        if low <= torch <= high:
            world, nodes = rng.choice(worlds)
            backend = rng.choice(list(needs.get("backend", ["nccl", "gloo"])))
            yield make_job(rng, world, nodes, torch, backend, rng.choice(list(needs.get("launcher", LAUNCHERS))))


def check(script: Script, job: Job, category: str) -> None:
    assert script.category == category
    assert script.reason in REASONS[category].split()
    assert script.scope in {"ranks", "all", "launcher", "unknown", "none"}
    assert bool(script.culprit_ranks) == (script.scope == "ranks")
    assert list(script.culprit_ranks) == sorted(set(script.culprit_ranks))
    assert all(0 <= rank < job.world_size for rank in script.culprit_ranks)
    assert len(script.culprit_ranks) < job.world_size
    assert (script.scope == "none") == (category == "no_failure")
    for say in script.says:
        lines = say.text.split("\n")
        assert say.text
        assert SYSTEM <= say.who < job.world_size
        assert all(0 <= rank < job.world_size for rank in (*say.names, *say.maps))
        assert all(0 <= offset < len(lines) and lines[offset].strip() for offset in say.evidence), (
            say.text,
            say.evidence,
        )
        assert 0 <= say.node < len(job.hosts)
        assert say.kind in {"raw", "traceback", "c10", "log", "nccl"}
        assert say.kind != "c10" or say.origin
        assert say.t >= 0
        assert not PLACEHOLDER.search(say.text), say.text
    evident = any(say.evidence for say in script.says) or script.table_is_evidence
    assert evident == (category != "no_failure")
    dying = [end.rank for end in script.exits]
    assert len(dying) == len(set(dying)) and all(0 <= rank < job.world_size for rank in dying)
    if category != "no_failure" and script.scope != "launcher":
        assert script.exits or script.hang or category == "node_failure"


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    category, fault = SCENARIOS[name]
    assert category in REASONS
    for seed in range(3):
        for job in jobs(name, seed):
            script = fault(random.Random(f"{name}{seed}{job.torch}"), job)
            assert script.needs == NEEDS[name]
            check(script, job, category)
            again = fault(random.Random(f"{name}{seed}{job.torch}"), job)
            assert again.says == script.says and again.exits == script.exits


def test_names_are_unique() -> None:
    assert sum(len(module.SCENARIOS) for module in MODULES) == len(SCENARIOS) == len(NEEDS)
    assert len(SCENARIOS) >= 110


def test_every_rank_prints_nothing_when_silent() -> None:
    """The silent culprit is silent: it says nothing after the failure begins."""
    rng = random.Random(1)
    job = make_job(rng, 8, 2, (2, 6), "nccl", "torchrun")
    for name in ("timeout-allreduce-silent", "timeout-node-silent", "gpuhw-xid-silent-rank"):
        script = SCENARIOS[name][1](random.Random(3), job)
        assert script.silent
        assert not [say for say in script.says if say.who in script.silent and say.t > script.fails_at]


def test_one_process_is_all() -> None:
    """Rule 13: a job of one process has no culprit rank."""
    job = make_job(random.Random(2), 1, 1, (2, 4), "nccl", "torchrun")
    for name, (category, fault) in SCENARIOS.items():
        if (
            "1" in NEEDS[name].get("world_size", ["1"])
            and "nodes" not in NEEDS[name]
            and category in ("host_oom", "native_crash")
        ):
            assert fault(random.Random(5), replace(job)).scope == "all"


def test_the_renderer_knows_every_template() -> None:
    known = render.templates()
    assert all(known[name].needs == NEEDS[name] for name in SCENARIOS)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_rendered_labels(module: ModuleType) -> None:
    """Each template becomes a log whose evidence lines are in it."""
    for name in module.SCENARIOS:
        tries = (render.render_log(random.Random(f"{name}{k}"), render.templates()[name]) for k in range(12))
        rendered = next((found for found in tries if found), None)
        assert rendered, name
        count = rendered.text.count("\n") + 1
        assert all(1 <= line <= count for line in rendered.label["evidence_lines"])
