"""JSON that others wrote: what it holds, or a `ValueError`, whatever it is."""

from __future__ import annotations

import json
from typing import Any


def from_json(text: str) -> Any:
    """Return what a JSON text holds.

    Raises
    ------
    ValueError : no JSON, a number of thousands of digits, or nested so deep that Python gives up

    >>> from_json("[" * 100_000)
    Traceback (most recent call last):
    json.decoder.JSONDecodeError: nested too deep: line 1 column 1 (char 0)
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("nested too deep", text, 0) from None
