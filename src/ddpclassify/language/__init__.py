"""The language that people are spoken to in.

English stands in the code; another language is a table of all its texts, ``<language>.toml`` beside this file, and a
folder of the categories' texts, ``taxonomy/<language>/``. What programs read (JSON fields, identifiers) is the same in
all languages.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["LANGUAGES", "current", "from_environment", "say", "use"]

LANGUAGES = ("en", "zh")
_HERE = Path(__file__).parent
_current = "en"


def use(language: str) -> None:
    """Speak this language from now on.

    Raises
    ------
    ValueError : not one of `LANGUAGES`
    """
    global _current
    if language not in LANGUAGES:
        raise ValueError(f"no such language: {language!r}; there are {', '.join(LANGUAGES)}")
    _current = language


def current() -> str:
    """Return the language that is spoken."""
    return _current


def from_environment(environ: Mapping[str, str] = os.environ) -> str:
    """Return the language that the environment asks for, by the rules of POSIX; English where it is another.

    >>> from_environment({"LANG": "zh_CN.UTF-8"}), from_environment({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"})
    ('zh', 'en')
    """
    wanted = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environ.get(name))), "")
    language = wanted.partition(".")[0].partition("_")[0].lower()
    return language if language in LANGUAGES else "en"


def say(english: str, /, **values: object) -> str:
    """Return a text in the spoken language, with its ``{fields}`` filled in.

    >>> say("{n} frames of {packages}", n=3, packages="torch")
    '3 frames of torch'
    """
    text = english if _current == "en" else _table(_current).get(english, english)
    return text.format(**values) if values else text


@cache
def _table(language: str) -> dict[str, str]:
    from ddpclassify.tables import read_toml

    return {key: value for section in read_toml(_HERE / f"{language}.toml").values() for key, value in section.items()}
