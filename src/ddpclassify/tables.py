"""Reads the TOML tables that hold what this program knows."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises
    ------
    ValueError : not a TOML file; the message names it
    """
    # Part of Python since 3.11; tomli is the same code for 3.10.
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        return cast("dict[str, Any]", toml.loads(path.read_text(encoding="utf-8")))
    except RecursionError:
        raise ValueError(f"{path}: not a TOML file: nested too deep") from None
    except ValueError as error:  # a syntax error, or a byte that is no UTF-8
        raise ValueError(f"{path}: not a TOML file: {error}") from None
