"""Whatever the program says in English, it can say in every other language: no text lacks its translation."""

from __future__ import annotations

import ast
import re
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ddpclassify
from ddpclassify import language, taxonomy
from ddpclassify.cli import run, watch
from ddpclassify.diagnosis import explanation, missing
from ddpclassify.page import axis, picture
from ddpclassify.report import text, why, words
from ddpclassify.tables import read_toml
from ddpclassify.taxonomy import ORIGINS, RETRIES

SOURCE = Path(ddpclassify.__file__).parent
OTHERS = [name for name in language.LANGUAGES if name != "en"]

SPEAKERS = ("say", "tell", "_line", "_folded")  # the last two hand their first argument on

# Texts that a variable brings to `say`.
TABLES = {
    *text.LABELS,
    *words.RETRY.values(),
    *ORIGINS,
    *RETRIES,
    *run._SIGNALS.values(),
    *watch._NEWS.values(),
    *(told for _, told in missing._ROWS),
    *explanation.KINDS.values(),
    *why.WHAT.values(),
    *axis._CAPTIONS.values(),
    *axis.UNITS,
    *picture.STANDINGS.values(),
    *picture.SHORT.values(),
    *(meaning for _, meaning in picture._STATES),
    *("Again?", "Origin", "Place", "Ranks", "Host", "Last step seen", "Log"),  # page.parts._facts
    "reports a failure",
    "speaks, no failure yet",
    "speaks, after its first failure",
}


def spoken(path: Path) -> Iterator[str]:
    """The texts that a module gives to `say`, as literals or by a name that it sets itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.comprehension) and isinstance(node.target, ast.Name):
            values.setdefault(node.target.id, []).append(node.iter)

    def literals(node: ast.AST, depth: int = 0) -> Iterator[str]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Dict):
            for value in node.values:
                yield from literals(value, depth)
        elif isinstance(node, ast.Name) and depth < 3:
            for value in values.get(node.id, []):
                yield from literals(value, depth + 1)
        elif isinstance(node, ast.IfExp):
            yield from literals(node.body, depth)
            yield from literals(node.orelse, depth)
        elif isinstance(node, ast.Subscript):
            yield from literals(node.value, depth)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for value in node.elts:
                yield from literals(value, depth)

    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SPEAKERS and node.args:
            yield from literals(node.args[0])


# The jobs that the generator runs speak for themselves.
MODULES = [path for path in SOURCE.rglob("*.py") if "workloads" not in path.parts]
ENGLISH = ({told for path in MODULES for told in spoken(path)} | TABLES) - {""}


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


@pytest.mark.parametrize("name", OTHERS)
def test_every_text_has_its_translation_with_the_same_fields(name: str) -> None:
    table = language._table(name)
    assert sorted(ENGLISH - set(table)) == []
    assert sorted(set(table) - ENGLISH) == []
    assert [told for told in table.values() if not told.strip()] == []
    assert {english: told for english, told in table.items() if fields(english) != fields(told)} == {}


def texts(data: object, path: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a category's file with the place of each."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from texts(value, f"{path}.{key}")
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from texts(value, f"{path}[{i}]")
    else:
        yield path, str(data)


def translatable(data: dict[str, Any]) -> dict[str, Any]:
    """What of an English file another language's file must hold, in its form."""
    kept: dict[str, Any] = {key: data[key] for key in ("title", "meaning", "first_check", "steps") if key in data}
    if "missing" in data:
        kept["missing"] = [item["when"] for item in data["missing"]]
    if "neighbours" in data:
        kept["neighbours"] = {item["category"]: item["how"] for item in data["neighbours"]}
    if "reasons" in data:
        kept["reasons"] = {
            item["id"]: {key: item[key] for key in ("title", "first_check", "steps") if key in item}
            for item in data["reasons"]
        }
    return kept


@pytest.mark.parametrize("name", [*taxonomy.names(), taxonomy.UNKNOWN])
@pytest.mark.parametrize("lang", OTHERS)
def test_every_text_of_a_category_has_its_translation(lang: str, name: str) -> None:
    folder = Path(taxonomy.__file__).parent
    english = read_toml(folder / (f"categories/{name}.toml" if name != taxonomy.UNKNOWN else "unknown.toml"))
    theirs = dict(texts(read_toml(folder / lang / f"{name}.toml")))
    ours = dict(texts(translatable(english)))
    assert sorted(theirs) == sorted(ours)
    assert [path for path, text in theirs.items() if "\n" in text or text != text.strip()] == []
    # Commands, options and names of the program's are the same words in both.
    for path, told in ours.items():
        wanted = Counter(" ".join(code.split()) for code in re.findall("`([^`]+)`", told))
        assert Counter(re.findall("`([^`]+)`", theirs[path])) == wanted, path


@pytest.mark.parametrize("lang", OTHERS)
def test_it_is_that_language(lang: str) -> None:
    """Whole sentences are translated: hardly a text is without a character of the language's own."""
    own = {"zh": "[\u4e00-\u9fff]"}[lang]
    folder = Path(taxonomy.__file__).parent / lang
    told = [text for path in folder.glob("*.toml") for _, text in texts(read_toml(path))]
    assert [text for text in told if not re.search(own, text)] == []
    assert not any(re.search("[\u4e00-\u9fff][,;:?!.](?:\\s|$|[\u4e00-\u9fff])", text) for text in told)
