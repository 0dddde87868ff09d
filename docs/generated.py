"""Writes the pages that come from the program's own tables, so that no page tells what the program does not do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from ddpclassify import load_model, taxonomy
from ddpclassify.cli import SECTIONS, cli
from ddpclassify.corpus import Labelled, load_corpus
from ddpclassify.ranks.forms import FORMS
from ddpclassify.report import text_report

ROOT = Path(__file__).parent.parent
GROUPS = {
    "rank": "rank",
    "local": "local rank",
    "task": "launcher's index",
    "device": "GPU",
    "host": "host",
    "pid": "process",
    "level": "level",
    "origin": "source file",
    "h": "time",
}
FORMS_HEAD = """\
# Forms of logs

A log is a file, plain or compressed (gzip, bzip2, xz, zstd: told by its first bytes), a folder of per-rank files, or
standard input.

From the left of each line these marks are taken off, one after the other, until none fits; what they tell is kept. An
inner mark overrides an outer one. *Common* marks look like everyday text, and count only where a good share of a file's
lines bears them. Adding one is [a row of a table](../extending.md#a-prefix-form).
"""
WIDE = 180  # characters of a shown line


def write(folder: Path) -> None:
    """Write all generated pages into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = {"forms": forms()}
    pages |= {f"commands/{name}": command(name) for section in SECTIONS.values() for name in section}
    logs = examples()
    pages |= {f"categories/{name}": category(name, logs[name]) for name in taxonomy.names()}
    for name, text in pages.items():
        page = folder / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    for name, card in {"data-card": "data", "model-card": "models/default"}.items():
        text = (ROOT / card / "README.md").read_text("utf-8").replace("../../data/README.md", "data-card.md")
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))


def command(name: str) -> str:
    """Return the page of one command: its help, as 88 columns show it."""
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    context = click.Context(found, info_name=f"ddpclassify {name}", max_content_width=88, terminal_width=88)
    return f"# `{name}`\n\n```text\n$ ddpclassify {name} --help\n{found.get_help(context)}\n```\n"


def cell(text: str, code: bool = False) -> str:
    """Return a text as one cell of a table."""
    text = text.replace("|", "\\|")
    return f"`` {text} ``" if code else text


def forms() -> str:
    """Return the table of the forms of a line that are read."""
    lines = [
        FORMS_HEAD,
        "| form | example | tells | common |",
        "| --- | --- | --- | --- |",
    ]
    for form in FORMS:
        tells = ", ".join(told for group, told in GROUPS.items() if group in form.regex.groupindex)
        common = "yes" if form.weak else ""
        lines.append(f"| {cell(form.name)} | {cell(form.example, code=True)} | {tells} | {common} |")
    return "\n".join(lines) + "\n"


def examples() -> dict[str, Labelled]:
    """Return a log of each category: the shortest whole one of a few ranks that tells who failed, if there is one."""
    found: dict[str, tuple[tuple[bool, bool, int], Labelled]] = {}
    for corpus in ("executed", "rendered"):
        for each in load_corpus(ROOT / "data" / f"{corpus}.tar.xz"):
            if each.row["damage"] != "none" or each.row["world_size"] > 8:
                continue
            size = each.path.stat().st_size
            rank = (each.scope != "ranks", size < 600, size)  # less than that shows nothing of a job
            if each.category not in found or rank < found[each.category][0]:
                found[each.category] = rank, each
    return {name: each for name, (_, each) in found.items()}


def category(name: str, example: Labelled) -> str:
    """Return the page of one category."""
    return "\n".join(_category(taxonomy.load(name), example)) + "\n"


def _category(category: taxonomy.Category, example: Labelled) -> Iterator[str]:
    yield f"# `{category.name}`: {category.title}"
    yield f"\nOrigin: {category.origin}. Retry: {category.retry}.\n\n{category.meaning}\n\n## A log\n"
    yield from _example(example)
    yield from _advice(category)
    yield "\n## Telling it from its neighbours\n"
    for near in category.neighbours:
        yield f"- [`{near.category}`]({near.category}.md): {near.how}"
    yield "\n## What the log says, for example\n\n```text"
    yield from category.examples
    yield "```\n\n## Evidence for next time\n"
    for missing in category.missing:
        yield f"- {missing.when}:"
        yield from (f"  - `` {flag} ``" for flag in missing.flags)
    yield "\n## Reasons"
    for reason in category.reasons:
        retry = f" Retry: {reason.retry}." if reason.retry else ""
        yield f"\n**`{reason.id}`**: {reason.title}.{retry}\n"
        if reason.first_check:
            yield f"First: {reason.first_check}\n"
        yield from _numbered(reason.steps)


def _example(example: Labelled) -> Iterator[str]:
    kind = {"executed": "A job that really ran here and failed", "rendered": "Rendered from message formats"}
    text = example.path.read_text(encoding="utf-8", errors="replace")
    proof = ",".join(example.evidence_lines)
    who = {
        "ranks": f"ranks {', '.join(map(str, example.culprit_ranks or ()))}",
        "none": "nobody",
        "unknown": "not told",
    }
    row, culprit = example.row, who.get(example.scope or "", example.scope)
    yield f"{kind[row['provenance']]} ({row['launcher']}, {row['world_size']} ranks); it is in the training corpus."
    yield f"Label: `{example.category}`, culprit: {culprit}; the lines that prove it are marked."
    yield "\n```{code-block} text\n:linenos:" + (f"\n:emphasize-lines: {proof}" if proof else "") + "\n"
    yield from (line if len(line) <= WIDE else f"{line[:WIDE]}…" for line in text.rstrip("\n").split("\n"))
    yield "```\n\nThe answer:\n\n```text"
    folded, diagnosis = load_model().explain(example.path)
    yield text_report(replace(diagnosis, source="job.log"), folded=folded)
    yield "```"


def _advice(category: taxonomy.Category) -> Iterator[str]:
    yield f"\n## First check\n\n{category.first_check}\n\n## What to do\n"
    yield from _numbered(category.steps)


def _numbered(steps: Sequence[str]) -> Iterator[str]:
    yield from (f"{number}. {step}" for number, step in enumerate(steps, 1))
