"""Diagnose failed distributed PyTorch jobs from their logs.

>>> from ddpclassify import diagnose  # doctest: +SKIP
>>> diagnose("log.txt").category  # doctest: +SKIP
'cuda_oom'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["Diagnosis", "InputError", "Model", "diagnose", "load_model"]

if TYPE_CHECKING:
    from ddpclassify.api import Model, diagnose, load_model
    from ddpclassify.types import Diagnosis, InputError


def __getattr__(name: str) -> Any:
    """Import on first use: `--help` and `--version` need none of it."""
    if name in ("Diagnosis", "InputError"):
        from ddpclassify import types

        return getattr(types, name)
    if name in __all__:
        from ddpclassify import api

        return getattr(api, name)
    raise AttributeError(f"module 'ddpclassify' has no attribute {name!r}")
