"""No regular expression takes quadratic time: four times the input may take four times as long, not sixteen.

Every pattern of the package is tried on long repetitions of what it is made of, alone and behind the beginnings of its
example. What counts is the ratio of two processor times, so a busy machine does not matter.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import ddpclassify
from ddpclassify.baselines.table import rules
from ddpclassify.events.statements import STATEMENTS
from ddpclassify.fold.normalise import MASKS
from ddpclassify.patterns import _Lazy
from ddpclassify.ranks.forms import FORMS
from ddpclassify.redact import table

# What takes a pattern apart: private since Python 3.11.
_PARTS = ("re._compiler", "re._parser") if sys.version_info >= (3, 11) else ("sre_compile", "sre_parse")
compiler, parser = map(importlib.import_module, _PARTS)
PACKAGE = Path(ddpclassify.__file__).parent
OWN = "generate"  # reads nothing but what the jobs and templates of this package wrote
# Modules that put a pattern together: they are tried as tables, as values of modules, or (a name, escaped, between two
# characters) can't search long.
COMPOSED = {
    *("baselines/facts.py", "baselines/table.py", "baselines/writers.py", "events/statements.py"),
    *("events/tracebacks.py", "fold/normalise.py", "ranks/facts.py", "ranks/forms.py", "redact/__init__.py"),
    *("report/words.py", "patterns.py"),
    *("baselines/blame.py", "corpus/check.py", "read/scan.py"),
}
PIECES = [
    *"aA1 /.:-='([<@|+", "a.", "A1", "1.", "1, ", "a b ", "a-", "a: ", "a=1 ", "://", "Error", "Error: ", "a/", "é",
]  # fmt: skip
SHORT, LONG = 500, 2000
SUSPECT = 0.0003  # seconds that a linear search in `SHORT` characters does not take
FAR = 9.0  # between the ratios 4 (linear) and 16 (quadratic)

Case = tuple[str, "re.Pattern[str] | re.Pattern[bytes]", str]


def named() -> Iterator[Case]:
    """Yield (name, pattern, example) of every row of a table, value of a module and pattern written in the source."""
    yield from ((f"form {f.name}", re.compile(r"\A" + f.pattern), f.example + "x") for f in FORMS)
    yield from ((f"statement {s.kind} {i}", s.regex, s.example) for i, s in enumerate(STATEMENTS))
    yield from ((f"mask {name}", re.compile(pattern), example) for name, pattern, _, example, _ in MASKS)
    for row in table():
        yield from ((f"secret {row.name}", p, row.masks[0].replace("⟦", "").replace("⟧", "")) for p in row.patterns)
    for i, rule in enumerate(rules()):
        yield from ((f"rule {i} {rule.category}", p, rule.example) for p in (rule.pattern, rule.near) if p)
    for path, call in calls():
        if isinstance(call.args[0], ast.Constant):
            told = [arg for arg in (*call.args[1:], *(k.value for k in call.keywords)) if "re." in ast.unparse(arg)]
            flags = (eval(ast.unparse(arg), {"re": re}) for arg in told)
            yield f"{path}:{call.lineno}", re.compile(cast("str", call.args[0].value), *flags), ""
    for path in sources():
        module = importlib.import_module(".".join(("ddpclassify", *path.with_suffix("").parts)))
        for name, value in vars(module).items():
            for index, each in enumerate(_patterns(value)):
                yield f"{path} {name} {index}", each, ""


def sources() -> list[Path]:
    paths = (path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py")))
    return [path for path in paths if path.parts[0] not in (OWN, "__main__.py")]


def calls() -> Iterator[tuple[Path, ast.Call]]:
    """Yield every call that takes a pattern, and the module where it stands."""
    for path in sources():
        for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
            if isinstance(node, ast.Call) and node.args and re.fullmatch(_CALL, ast.unparse(node.func)):
                yield path, node


_CALL = r"lazy|re\.(?:compile|search|match|fullmatch|subn?|findall|finditer|split)"


def _patterns(value: object) -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    if isinstance(value, _Lazy):
        yield re.compile(*value._source)
    elif isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list, frozenset)):
        for each in value:
            yield from _patterns(each)
    elif isinstance(value, dict):
        yield from _patterns(list(value.values()))


def matching(parsed: Any) -> str:
    """Return a short text that a parsed pattern matches, but for what it asks of what stands around."""
    out = ""
    for item in parsed:
        kind, value = str(item[0]), item[1]
        if kind == "BRANCH":
            out += matching(value[1][0])
        elif kind == "SUBPATTERN":
            out += matching(value[3])
        elif kind in ("MAX_REPEAT", "MIN_REPEAT"):
            out += matching(value[2]) * max(1, value[0])
        elif kind == "LITERAL":
            out += chr(value)
        elif kind in ("NOT_LITERAL", "IN", "ANY"):
            one = compiler.compile(parser.SubPattern(parsed.state, [item]))
            named = [chr(v) for k, v in value if str(k) == "LITERAL"] if kind == "IN" else []
            out += next(filter(one.match, ["a", "1", " ", *named, *"-:(A│\x1b\x00\u202e"]), "")
    return out


CASES: dict[str, tuple[re.Pattern[str] | re.Pattern[bytes], str]] = {}
_seen: set[tuple[str | bytes, int]] = set()
for _name, _pattern, _example in named():
    if (_pattern.pattern, _pattern.flags) not in _seen:
        CASES[f"{_name} #{len(CASES)}"] = _pattern, _example or matching(parser.parse(_pattern.pattern, _pattern.flags))
        _seen.add((_pattern.pattern, _pattern.flags))


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


def test_no_pattern_is_left_out() -> None:
    composed = {str(path) for path, call in calls() if not isinstance(call.args[0], ast.Constant)}
    assert composed <= COMPOSED
    assert len(CASES) > 300


def test_a_quadratic_pattern_would_be_found() -> None:
    assert worst(re.compile(r"\w+@"), "")[0] >= FAR
