"""A category's texts in another language; what is not translated stays English.

A file holds ``title``, ``meaning``, ``first_check``, ``steps``, and ``missing`` with one text for each such table of
the English file, in its order; ``[neighbours]`` has a text for each neighbour, and ``[reasons.ID]`` what the reason
itself says. Log lines, flags and commands are the same in all languages.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ddpclassify.tables import read_toml
from ddpclassify.taxonomy import Category, Reason


def translated(category: Category, path: Path) -> Category:
    """Return a category with the texts of a file of another language."""
    texts = read_toml(path)
    how, reasons = texts.get("neighbours", {}), texts.get("reasons", {})
    return replace(
        category,
        title=texts.get("title", category.title),
        meaning=texts.get("meaning", category.meaning),
        first_check=texts.get("first_check", category.first_check),
        steps=tuple(texts.get("steps", category.steps)),
        neighbours=tuple(replace(n, how=how.get(n.category, n.how)) for n in category.neighbours),
        missing=tuple(
            replace(m, when=when or m.when)
            for m, when in zip_longest(category.missing, texts.get("missing", ())[: len(category.missing)])
        ),
        reasons=tuple(_reason(reason, reasons.get(reason.id, {})) for reason in category.reasons),
    )


def _reason(reason: Reason, texts: dict[str, Any]) -> Reason:
    return replace(
        reason,
        title=texts.get("title", reason.title),
        first_check=texts.get("first_check", reason.first_check),
        steps=tuple(texts.get("steps", reason.steps)),
    )
