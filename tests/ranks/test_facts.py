"""What lines say about the whole job."""

from __future__ import annotations

import pytest

from ddpclassify.ranks import attribute
from ddpclassify.read import read


@pytest.mark.parametrize(
    ("line", "host", "ranks"),
    [
        ("15:55:32 R0 info: ranks by host: cn004=0-7, cn005=8-15", "cn005", set(range(8, 16))),
        ("[rank 2] local_rank=2 host=n0029 pid=47", "n0029", {2}),
        ("rank 5 on worker-1", "worker-1", {5}),
        ("global_rank_mapping=defaultdict(<class 'list'>, {'a-1': [0, 1], 'a-2': [2, 3]})", "a-2", {2, 3}),
    ],
)
def test_which_ranks_a_host_has(line: str, host: str, ranks: set[int]) -> None:
    assert attribute(read([line])).facts.hosts[host] == ranks


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("WORLD_SIZE=16 MASTER_ADDR=n0029", 16),
        ("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4", 4),
        ('  File "/opt/accelerate/commands/launch.py", line 641, in simple_launcher', 1),
        ("nothing of the kind", None),
    ],
)
def test_world_size(line: str, size: int | None) -> None:
    assert attribute(read([line])).facts.world_size == size


def test_a_span_that_lies_does_not_grow_without_bound() -> None:
    facts = attribute(read(["ranks by host: evil=0-99999"])).facts
    assert len(facts.hosts["evil"]) <= 1025
