"""Regular expressions that are compiled when first used: most logs need few of those that this program knows."""

from __future__ import annotations

import re
from typing import Any, cast


class _Lazy:
    def __init__(self, pattern: str, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._source), name)
        setattr(self, name, value)  # from now on found without this detour
        return value


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` would, compiled at its first use.

    >>> lazy(r"rank (\\d+)").search("rank 3")[1]
    '3'
    """
    return cast("re.Pattern[str]", _Lazy(pattern, flags))
