"""The corpora that the built-in model is trained on, to be mixed with a house's own."""

from __future__ import annotations

from pathlib import Path

from ddpclassify.types import InputError

__all__ = ["BUILTIN", "builtin_corpora", "resolve"]

BUILTIN = "builtin"
_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE / "_data", _PACKAGE.parent.parent / "data")  # in the wheel; in a checkout
_ARCHIVES = ("executed.tar.xz", "rendered.tar.xz")


def builtin_corpora() -> list[Path]:
    """Return the archives of the built-in corpora.

    Raises
    ------
    InputError : this installation has none
    """
    for place in _PLACES:
        found = [place / name for name in _ARCHIVES]
        if all(path.is_file() for path in found):
            return found
    raise InputError(
        "this installation has no built-in corpora (executed.tar.xz, rendered.tar.xz); take them from data/ of the "
        "project and name them: --with executed.tar.xz --with rendered.tar.xz"
    )


def resolve(names: tuple[str, ...]) -> list[Path]:
    """Return the corpora that the names mean: ``"builtin"``, or paths."""
    found: list[Path] = []
    for name in names:
        found += builtin_corpora() if name == BUILTIN and not Path(name).exists() else [Path(name)]
    return found
