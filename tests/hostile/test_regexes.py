"""No regular expression takes quadratic time: four times the input may take four times as long, not sixteen.

Every pattern of every stage is tried on long repetitions of what it is made of, alone and behind the beginnings of its
example. What counts is the ratio of two processor times, so a busy machine does not matter.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator

import pytest

from ddpclassify.events.statements import STATEMENTS
from ddpclassify.fold.normalise import MASKS
from ddpclassify.patterns import _Lazy
from ddpclassify.ranks.forms import FORMS
from ddpclassify.redact import table

STAGES = (
    "read",
    "ranks",
    "events",
    "fold",
    "features",
    "model",
    "diagnosis",
    "report",
    "redact",
    "split",
    "page",
    "watch",
)
PIECES = [
    *"aA1 /.:-='([<@|+", "a.", "A1", "1.", "1, ", "a b ", "a-", "a: ", "a=1 ", "://", "Error", "Error: ", "a/", "é",
]  # fmt: skip
SHORT, LONG = 500, 2000
SUSPECT = 0.0003  # seconds that a linear search in `SHORT` characters does not take
FAR = 9.0  # between the ratios 4 (linear) and 16 (quadratic)

Case = tuple[str, "re.Pattern[str] | re.Pattern[bytes]", str]


def named() -> Iterator[Case]:
    """Yield (name, pattern, example) of every row of a table, and of every pattern of a module."""
    yield from ((f"form {f.name}", re.compile(r"\A" + f.pattern), f.example + "x") for f in FORMS)
    yield from ((f"statement {s.kind} {i}", s.regex, s.example) for i, s in enumerate(STATEMENTS))
    yield from ((f"mask {name}", re.compile(pattern), example) for name, pattern, _, example, _ in MASKS)
    for row in table():
        yield from ((f"secret {row.name}", p, row.masks[0].replace("⟦", "").replace("⟧", "")) for p in row.patterns)
    for stage in STAGES:
        package = importlib.import_module(f"ddpclassify.{stage}")
        modules = [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
        for module in [package.__name__, *modules]:
            for name, value in vars(importlib.import_module(module)).items():
                for index, each in enumerate(_patterns(value)):
                    yield f"{module}.{name} {index}", each, ""


def _patterns(value: object) -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    if isinstance(value, _Lazy):
        yield re.compile(*value._source)
    elif isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _patterns(each)


CASES = {name: (pattern, example) for name, pattern, example in named()}


def seconds(pattern: re.Pattern[str], text: str) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        for _ in pattern.finditer(text):
            pass
        best = min(best, time.process_time() - start)
        if best < SUSPECT:
            break
    return best


def worst(pattern: re.Pattern[str], example: str) -> tuple[float, str]:
    """Return the largest ratio of times found, and the text that gave it."""
    words = re.findall(r"[A-Za-z_]{3,}", pattern.pattern)[:4]
    found = (0.0, "")
    for piece in dict.fromkeys([*PIECES, *words, *(w + " " for w in words)]):
        for start in dict.fromkeys(("", example[: len(example) // 2], example)):
            short, long = (start + piece * (n // len(piece)) + "\x00" for n in (SHORT, LONG))
            if (few := seconds(pattern, short)) >= SUSPECT:
                found = max(found, (seconds(pattern, long) / few, f"{start!r} + {piece!r} * n"))
                if found[0] >= FAR:
                    return found
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_pattern_takes_linear_time(name: str) -> None:
    pattern, example = CASES[name]
    if isinstance(pattern.pattern, bytes):
        pattern = re.compile(pattern.pattern.decode("latin-1"), pattern.flags)
    ratio, text = worst(pattern, example)
    assert ratio < FAR, f"{ratio:.0f} times as long for 4 times the input: {text}"


def test_a_quadratic_pattern_would_be_found() -> None:
    assert worst(re.compile(r"\w+@"), "")[0] >= FAR
