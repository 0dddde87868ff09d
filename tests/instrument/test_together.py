"""What ranks find out about each other; a dictionary stands for the store."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ddpclassify.instrument import MissingRanksError, together
from ddpclassify.instrument.checks import judge
from ddpclassify.instrument.who import Who


class Store:
    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        self.rows[key] = value

    def add(self, key: str, amount: int) -> int:
        with self.lock:
            self.rows[key] = self.rows.get(key, 0) + amount
            return int(self.rows[key])

    def check(self, keys: list[str]) -> bool:
        return all(key in self.rows for key in keys)


def as_rank(monkeypatch: pytest.MonkeyPatch, world: int) -> threading.local:
    me = threading.local()
    monkeypatch.setattr(together, "who", lambda: Who(me.rank, 0, world, "node7"))
    return me


def test_all_ranks_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    me, store, met = as_rank(monkeypatch, 4), Store(), list[int]()

    def rank(number: int) -> None:
        me.rank = number
        together.meet(store, "load/1", "load", 30)
        met.append(number)

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(met) == [0, 1, 2, 3]


def test_who_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    me, store = as_rank(monkeypatch, 40), Store()
    store.rows = {f"ddpclassify/load/1/{rank}": "1" for rank in range(40) if rank not in (3, 5)}
    me.rank = 0
    with pytest.raises(MissingRanksError, match=r"Ranks 3, 5 failed to pass .* \(checkpoint 'load'\)") as caught:
        together.meet(store, "load/1", "load", 0.01)
    assert caught.value.ranks == (3, 5)
    with pytest.raises(MissingRanksError, match=r"19, 20 and 19 more failed"):
        together.meet(Store(), "load/1", "load", 0.01)


def facts(rank: int, **more: object) -> dict[str, Any]:
    return {
        "rank": rank, "host": f"node{rank // 2}", "local": rank % 2, "world": 4, "world said": "4", "time": 1e9,
        "python": "3.11.7", "torch": "2.13.0", "cuda": "12.9", "nccl": "2.27", "devices": 2,
        "device": f"GPU-{rank % 2}", "foreign": 0.0, "data_length": 100, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"torch": "2.12.0"}, "the torch version differs: 2.13.0 on ranks 0, 1, 2, 2.12.0 on rank 3"),
        ({"data_length": 99}, "the data length differs: 100 on ranks 0, 1, 2, 99 on rank 3"),
        ({"nccl": None}, "nccl differs"),
        ({"device": "GPU-0"}, "ranks 2, 3 on node1 use the same device"),
        ({"device": "broken: RuntimeError: CUDA error"}, "the device of rank 3 on node1 does not answer"),
        ({"local": 2}, "rank 3 has local rank 2, but sees 2 devices"),
        ({"foreign": 0.6}, "others hold 60% of the device memory of rank 3"),
        ({"time": 1e9 + 60}, "the clocks of node0 and node1 are 60 s apart"),
        ({"world said": "8"}, "rank 3 has WORLD_SIZE=8 in a group of 4"),
    ],
)
def test_what_does_not_fit_together_is_said_in_a_line(change: dict[str, object], said: str | None) -> None:
    problems = judge([facts(0), facts(1), facts(2), facts(3, **change)])
    assert len(problems) == (said is not None)
    assert said is None or said in problems[0]
