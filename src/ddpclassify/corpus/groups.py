"""Fixed grouped splits: what must stay on one side, so that a test fold holds what was never trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["GROUPINGS", "group_of"]

GROUPINGS = ("template", "launcher", "workload")


def group_of(row: Mapping[str, Any], grouping: str = "template") -> str:
    """Return the group of a label row: its fault template, launcher or workload.

    A row that does not tell, as in-house rows need not, is a group of its own, named by its log.
    """
    if grouping not in GROUPINGS:
        raise ValueError(f"no grouping {grouping!r}: one of {', '.join(GROUPINGS)}")
    return str(row.get(grouping) or row["log"])
