"""Scenarios: faults whose log is a story of several ranks, told by functions (exception rows are data elsewhere)."""

from __future__ import annotations

from collections.abc import Sequence

from ..script import Fault
from . import (
    device_memory,
    divergence_data,
    divergence_model,
    gpu_lost,
    gpu_xid,
    host_memory,
    native_crash,
    network_nccl,
    network_setup,
    no_failure,
    node_failure,
    rendezvous,
    setup_limits,
    stopped_outside,
    stopped_signal,
    timeout_nccl,
    timeout_other,
)

MODULES = (
    device_memory,
    divergence_data,
    divergence_model,
    gpu_lost,
    gpu_xid,
    host_memory,
    native_crash,
    network_nccl,
    network_setup,
    no_failure,
    node_failure,
    rendezvous,
    setup_limits,
    stopped_outside,
    stopped_signal,
    timeout_nccl,
    timeout_other,
)
SCENARIOS: dict[str, tuple[str, Fault]] = {name: row for module in MODULES for name, row in module.SCENARIOS.items()}
NEEDS: dict[str, dict[str, Sequence[str]]] = {name: row for module in MODULES for name, row in module.NEEDS.items()}

__all__ = ["MODULES", "NEEDS", "SCENARIOS"]
