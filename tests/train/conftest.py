"""A small house: its logs, one of its categories unknown elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CAUSES = {
    "licence_denied": ("RuntimeError: no seat for feature solver-{n}: licence server gave LM-{n}", "ranks"),
    "cuda_oom": ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 GiB", "ranks"),
    "code_error": ("NameError: name 'batch_{n}' is not defined", "all"),
}
HOUSE = """
[category.licence_denied]
origin = "environment"
retry = "maybe"
meaning = "The licence server has no seat left."
first_check = "lmstat -a"
steps = ["Wait for a seat."]
"""


def _log(cause: str, n: int, everyone: bool) -> tuple[str, list[int]]:
    lines = [f"[rank{r}]: step {s} loss 0.{n}" for s in range(3) for r in range(2)]
    at = []
    for rank in (0, 1) if everyone else (1,):
        head = f"[rank{rank}]: "
        lines += [f"{head}Traceback (most recent call last):", f'{head}  File "/w/train.py", line {n + 3}, in main']
        lines += [f"{head}    step(batch)", head + cause.format(n=n)]
        at.append(len(lines))
    return "\n".join(lines) + "\n", at


Build = Callable[..., Path]


@pytest.fixture
def house(tmp_path: Path) -> Build:
    """Return what makes a corpus: its name, logs a category, and changes to each row."""

    def build(name: str = "house", each: int = 8, categories: tuple[str, ...] = tuple(CAUSES), **row: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        rows = []
        for n in range(each):
            for category in categories:
                cause, scope = CAUSES[category]
                text, lines = _log(cause, n, scope == "all")
                log = f"{category}-{n}.log"
                (folder / log).write_text(text)
                ranks = [] if scope == "all" else [1]
                full = {"log": log, "category": category, "scope": scope, "culprit_ranks": ranks}
                full |= {"evidence_lines": lines} | row
                rows.append({k: v for k, v in full.items() if v is not None})
        (folder / "labels.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        (folder / "categories.toml").write_text(HOUSE)
        return folder

    return build
