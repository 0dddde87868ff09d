"""The house: each part imports only parts before it, no file grows too long, the tests lie as the source does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ddpclassify"
MODULES = sorted(SOURCE.rglob("*.py"))

# Each part may import those before it; the stages of a diagnosis stand in the order of the data.
ORDER = (
    *("types", "files", "foreign", "patterns", "tables", "language", "taxonomy"),
    *("read", "redact", "ranks", "events", "fold", "features", "model", "diagnosis", "report", "page"),
    "api",
    *("instrument", "split", "watch", "wrap", "fleet"),
    *("corpus", "generate", "baselines", "evaluation", "train"),
    *("cli", "__main__"),
)
# Who knows a later part after all, inside a function only, and why.
EXCEPTIONS = {
    ("types", "page"),  # a Diagnosis shows itself as a card in a notebook
}
LONGEST = 420  # lines; about 400, as CONTRIBUTING says
ACROSS = {"cases", "docs", "hostile", "metamorphic", "notebooks"}  # tests that belong to no one part


def part_of(path: Path) -> str:
    """The part of the program that a module belongs to."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Each part that a module imports, and whether that happens when it is imported itself."""
    tree = ast.parse(path.read_text("utf-8"))
    waiting: list[tuple[ast.AST, bool]] = [(tree, True)]
    while waiting:
        node, now = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        now = now and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        waiting += [(child, now) for child in ast.iter_child_nodes(node)]
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:  # a relative one stays inside its part
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "ddpclassify" and (part := rest.partition(".")[0]) in ORDER:
                yield part, now


def test_every_part_has_its_place() -> None:
    assert {part_of(path) for path in MODULES} - {"__init__"} == set(ORDER)


@pytest.mark.parametrize("part", ORDER)
def test_no_part_knows_a_later_one(part: str) -> None:
    later = set(ORDER[ORDER.index(part) + 1 :])
    found = [(other, now, path) for path in MODULES if part_of(path) == part for other, now in imports(path)]
    known = {(part, other) for other, _, _ in found if other in later}
    allowed = {pair for pair in EXCEPTIONS if pair[0] == part}
    assert known == allowed
    assert not [str(path) for other, now, path in found if now and (part, other) in EXCEPTIONS]


@pytest.mark.parametrize("folder", ["src", "tests", "scripts", "benchmarks", "docs"])
def test_no_file_is_too_long(folder: str) -> None:
    long = {
        str(path): lines
        for path in (ROOT / folder).rglob("*.py")
        if (lines := path.read_text("utf-8").count("\n")) > LONGEST
    }
    assert not long


def test_the_tests_lie_as_the_source_does() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert folders - packages == ACROSS
    assert not packages - folders
