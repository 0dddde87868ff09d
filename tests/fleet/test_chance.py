"""Who is called a bad node: drawn fleets, in which we know which node is bad."""

from __future__ import annotations

import random
from pathlib import Path

from fleet_rows import row

from ddpclassify.fleet.store import Store
from ddpclassify.fleet.summary import summarise


def summary(folder: Path, rows: list[str]) -> dict[str, object]:
    with Store(folder, writer=True) as store:
        store.add(rows)
        return summarise(store.db)


def fleet(rng: random.Random, bad: str | None) -> list[str]:
    """Four hundred jobs on four of forty hosts each; with a bad host half of its jobs fail through it."""
    out = []
    for number in range(400):
        hosts = [f"node{n}" for n in rng.sample(range(40), 4)]
        if bad in hosts and rng.random() < 0.5:
            out.append(row(f"{number}.log", "gpu_hardware", "infrastructure", host=bad, hosts=hosts))
        elif rng.random() < 0.3:
            out.append(row(f"{number}.log", "gpu_hardware", "infrastructure", host=rng.choice(hosts), hosts=hosts))
        else:
            out.append(row(f"{number}.log", "code_error", "user code", host=rng.choice(hosts), hosts=hosts))
    return out


def test_a_bad_node_is_named_and_the_good_ones_are_not(tmp_path: Path) -> None:
    found = summary(tmp_path, fleet(random.Random(1), "node7"))
    assert [node["host"] for node in found["nodes"] if node["bad"]] == ["node7"]  # type: ignore[attr-defined]


def test_of_nodes_all_alike_none_is_called_bad(tmp_path: Path) -> None:
    for seed in range(10):
        found = summary(tmp_path / str(seed), fleet(random.Random(seed), None))
        assert [node for node in found["nodes"] if node["bad"]] == []  # type: ignore[attr-defined]


def test_a_host_where_bugs_show_is_no_bad_node(tmp_path: Path) -> None:
    rows = [row(f"{n}.log", "code_error", "user code", host="node1", hosts=["node1", "node2"]) for n in range(50)]
    assert summary(tmp_path, rows)["nodes"] == []


def test_a_category_that_grows_is_told(tmp_path: Path) -> None:
    rows = [row(f"{n}.log", "cuda_oom", "resource", seen=f"2026-11-{1 + n % 14:02}T00:00:00") for n in range(140)]
    rows += [row(f"n{n}.log", "network_error", "communication", seen="2026-11-13T00:00:00") for n in range(40)]
    found = {c["category"]: c["grows"] for c in summary(tmp_path, rows)["categories"]}  # type: ignore[attr-defined]
    assert found == {"cuda_oom": False, "network_error": True}
