"""What ranks do together, through the key-value store of the process group: no device, no collective, any backend."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from ddpclassify.instrument.marks import say
from ddpclassify.instrument.who import distributed, who

_SHOWN = 20
_passed: Counter[str] = Counter()


class MissingRanksError(RuntimeError):
    """Some ranks did not come to a checkpoint in time; `ranks` are they."""

    def __init__(self, message: str, ranks: tuple[int, ...]) -> None:
        super().__init__(message)
        self.ranks = ranks


MissingRanksError.__module__ = "ddpclassify.instrument"


def checkpoint(name: str, barrier: bool = True, timeout: float = 60.0) -> None:
    """Say that this rank has come to a place, and wait there for the others.

    Parameters
    ----------
    name : of the place; may be passed any number of times, by all ranks equally often
    barrier : wait for all ranks; without a process group nobody waits
    timeout : seconds after which the missing ranks are named

    Raises
    ------
    MissingRanksError : the others did not come in time
    """
    _passed[name] += 1
    say(f"checkpoint {name!r} reached")
    store = default_store()
    if not barrier or store is None:
        return
    meet(store, f"{name}/{_passed[name]}", name, timeout)


def default_store() -> Any:
    """Return the process group's store, or `None` when there is none."""
    if distributed() is None:
        return None
    try:
        from torch.distributed.distributed_c10d import _get_default_store

        return _get_default_store()
    except Exception:  # a group of another kind
        return None


def meet(store: Any, key: str, name: str, timeout: float) -> None:
    """Wait in a store until every rank has come to the place `key`."""
    me = who()
    prefix = f"ddpclassify/{key}"
    store.set(f"{prefix}/{me.rank}", "1")
    if store.add(f"{prefix}/count", 1) >= me.world:
        store.set(f"{prefix}/all", "1")
    if wait_for(store, f"{prefix}/all", timeout):
        return
    missing = tuple(rank for rank in range(me.world) if not store.check([f"{prefix}/{rank}"]))
    if missing:
        named = ", ".join(map(str, missing[:_SHOWN])) + (f" and {len(missing) - _SHOWN} more" * (len(missing) > _SHOWN))
        ranks = "Ranks" if len(missing) > 1 else "Rank"
        # The words of torch's own barrier that names ranks, which people and programs know.
        text = f"[Rank {me.rank}]: {ranks} {named} failed to pass monitoredBarrier in {timeout * 1000:.0f} ms"
        raise MissingRanksError(f"{text} (checkpoint {name!r})", missing)


def wait_for(store: Any, key: str, timeout: float) -> bool:
    """Wait for a key and return whether it came. Asking now and then leaves the store free for other threads."""
    end, pause = time.monotonic() + timeout, 0.005
    while not store.check([key]):
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.25)
    return True
