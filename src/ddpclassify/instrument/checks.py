"""Checks across all ranks before step 0, when DEBUG_DDP=1 is set; what is wrong ends the job with a clear line."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from ddpclassify.instrument.marks import say
from ddpclassify.instrument.together import default_store, meet, wait_for
from ddpclassify.instrument.who import who

Facts = dict[str, Any]

_CLOCKS = 5.0  # seconds apart that logs of several nodes can bear
_FOREIGN = 0.25  # of a device's memory that others may hold
_NAMES = {"data_length": "the data length", "python": "the Python version", "torch": "the torch version"}
_calls = 0


class PreflightError(RuntimeError):
    """The ranks don't fit together; `problems` has a line for each reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("pre-flight: " + "; ".join(problems))
        self.problems = problems


PreflightError.__module__ = "ddpclassify.instrument"


def preflight(data_length: int | None = None, timeout: float = 60.0, force: bool = False, **equal: object) -> None:
    """Check devices, ports, clocks, versions and data lengths of all ranks; does nothing unless DEBUG_DDP is set.

    Before `init_process_group` it checks the rendezvous address and port and this process; after it all ranks together.

    Parameters
    ----------
    data_length : steps or samples of this rank, which all ranks must have alike
    timeout : seconds to wait for the other ranks
    force : check without DEBUG_DDP
    equal : anything else that must be the same on all ranks, like ``lr=0.1``

    Raises
    ------
    PreflightError : something is wrong, on every rank with the same words
    MissingRanksError : some ranks don't come
    """
    global _calls
    if not force and os.environ.get("DEBUG_DDP", "").lower() not in ("1", "true", "yes", "on"):
        return
    _calls += 1
    me, store = who(), default_store()
    mine = {**_facts(), "data_length": data_length, **{key: repr(value)[:200] for key, value in equal.items()}}
    if store is None:
        problems = [*_rendezvous(min(timeout, 30.0)), *judge([mine])]
        if problems:
            raise PreflightError(problems)
        return
    key = f"preflight/{_calls}"
    meet(store, f"{key}/come", "pre-flight", timeout)
    store.set(f"ddpclassify/{key}/facts/{me.rank}", json.dumps({**mine, "time": time.time()}))
    meet(store, f"{key}/told", "pre-flight", timeout)
    verdict = f"ddpclassify/{key}/verdict"
    if me.rank == 0:
        everybody = [json.loads(store.get(f"ddpclassify/{key}/facts/{rank}")) for rank in range(me.world)]
        problems = judge(everybody)
        store.set(verdict, json.dumps(problems))
        if not problems:
            hosts = len({facts["host"] for facts in everybody})
            say(f"pre-flight: {me.world} ranks agree (hosts: {hosts})")
    elif not wait_for(store, verdict, timeout):
        raise PreflightError(["rank 0 gave no verdict"])
    else:
        problems = json.loads(store.get(verdict))
    if problems:
        raise PreflightError(problems)


def judge(everybody: list[Facts]) -> list[str]:
    """Return what is wrong with these ranks, a line for each reason."""
    problems = [text for key in everybody[0] if key not in _OWN for text in _differs(key, everybody)]
    for check in _CHECKS:
        problems += check(everybody)
    return problems


def _facts() -> Facts:
    me = who()
    torch = sys.modules.get("torch")
    facts: Facts = {
        "rank": me.rank,
        "host": me.host,
        "local": me.local,
        "world": me.world,
        "world said": os.environ.get("WORLD_SIZE"),
        "time": time.time(),
        "python": platform.python_version(),
        "torch": getattr(torch, "__version__", None),
        "cuda": None,
        "nccl": None,
        "devices": None,
        "device": None,
        "foreign": None,
    }
    try:
        if torch is not None and torch.cuda.is_available():
            device = torch.cuda.current_device()
            properties = torch.cuda.get_device_properties(device)
            free, total = torch.cuda.mem_get_info(device)
            facts.update(
                cuda=torch.version.cuda,
                nccl=".".join(map(str, torch.cuda.nccl.version())),
                devices=torch.cuda.device_count(),
                device=str(
                    getattr(properties, "uuid", "") or os.environ.get("CUDA_VISIBLE_DEVICES", "") + f":{device}"
                ),
                foreign=max(0.0, (total - free - torch.cuda.memory_reserved(device)) / total),
            )
    except Exception as error:
        facts["device"] = f"broken: {type(error).__name__}: {error}"[:300]
    return facts


_OWN = {"rank", "host", "local", "time", "devices", "device", "foreign", "world said"}


def _differs(key: str, everybody: list[Facts]) -> Iterable[str]:
    values: dict[str, list[int]] = defaultdict(list)
    for facts in everybody:
        values[str(facts.get(key))].append(facts["rank"] or 0)
    if len(values) > 1:
        told = ", ".join(f"{value} on {_ranks(ranks)}" for value, ranks in list(values.items())[:8])
        yield f"{_NAMES.get(key, key)} differs: {told}"


def _devices(everybody: list[Facts]) -> Iterable[str]:
    shared: dict[tuple[str, str], list[int]] = defaultdict(list)
    for facts in everybody:
        device = facts["device"]
        if device is None:
            continue
        if device.startswith("broken: "):
            yield f"the device of rank {facts['rank']} on {facts['host']} does not answer ({device[8:]})"
            continue
        shared[facts["host"], device].append(facts["rank"] or 0)
        if facts["local"] is not None and facts["local"] >= facts["devices"]:
            yield f"rank {facts['rank']} has local rank {facts['local']}, but sees {facts['devices']} devices"
        if facts["foreign"] > _FOREIGN:
            yield f"others hold {facts['foreign']:.0%} of the device memory of rank {facts['rank']} on {facts['host']}"
    for (host, _), ranks in shared.items():
        if len(ranks) > 1:
            yield f"{_ranks(ranks)} on {host} use the same device; call torch.cuda.set_device(local_rank)"


def _clocks(everybody: list[Facts]) -> Iterable[str]:
    first, last = min(everybody, key=lambda f: f["time"]), max(everybody, key=lambda f: f["time"])
    if (apart := last["time"] - first["time"]) > _CLOCKS:
        yield f"the clocks of {first['host']} and {last['host']} are {apart:.0f} s apart"


def _worlds(everybody: list[Facts]) -> Iterable[str]:
    for facts in everybody:
        said = facts["world said"]
        if said is not None and said != str(facts["world"]):
            yield f"rank {facts['rank']} has WORLD_SIZE={said} in a group of {facts['world']}"
            return
        if facts["rank"] is not None and facts["rank"] >= facts["world"]:
            yield f"rank {facts['rank']} in a world of {facts['world']}"


_CHECKS: tuple[Callable[[list[Facts]], Iterable[str]], ...] = (_devices, _clocks, _worlds)


def _rendezvous(timeout: float) -> Iterable[str]:
    """Check MASTER_ADDR and MASTER_PORT before the process group uses them."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT", "")
    if not address:
        return
    if not port.isdecimal() or not 0 < int(port) < 65536:
        yield f"MASTER_PORT={port!r} is no port"
        return
    try:
        socket.getaddrinfo(address, int(port))
    except OSError as error:
        yield f"MASTER_ADDR={address} does not resolve: {error.strerror or error}"
        return
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true"  # torchrun listens already
    if who().rank == 0 and not agent:
        if _answers(address, int(port), 0.0):
            yield f"MASTER_PORT={port} is taken on {who().host}"
    elif not _answers(address, int(port), timeout):
        yield f"rank {who().rank} on {who().host} can't reach {address}:{port} within {timeout:.0f} s"


def _answers(address: str, port: int, timeout: float) -> bool:
    end = time.monotonic() + timeout
    while True:
        try:
            with socket.create_connection((address, port), timeout=3):
                return True
        except OSError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.2)


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:16])) + (f" and {len(ranks) - 16} more" if len(ranks) > 16 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"
