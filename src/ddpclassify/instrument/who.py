"""Who this process is, as far as it can be known now."""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from typing import Any, NamedTuple

# Where launchers say it, in the order of trust.
_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LOCAL = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_WORLD = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


class Who(NamedTuple):
    """A process of a job; `rank` and `local` are `None` outside of one."""

    rank: int | None
    local: int | None
    world: int
    host: str


def who() -> Who:
    """Return who we are: as torch.distributed has it, or else as the launcher's environment says."""
    dist = distributed()
    local = _number(_LOCAL)
    if dist is not None:
        return Who(int(dist.get_rank()), local, int(dist.get_world_size()), host())
    return Who(_number(_RANK), local, _number(_WORLD) or 1, host())


def distributed() -> Any:
    """Return torch.distributed once its process group is there, or else `None`; imports nothing."""
    dist = sys.modules.get("torch.distributed")
    try:
        return dist if dist is not None and dist.is_available() and dist.is_initialized() else None
    except Exception:  # half imported, or built without it
        return None


@cache
def host() -> str:
    """Return this machine's name, without the domain."""
    return socket.gethostname().partition(".")[0] or "localhost"


def _number(names: tuple[str, ...]) -> int | None:
    for name in names:
        if (value := os.environ.get(name, "")).isdecimal():
            return int(value)
    return None
