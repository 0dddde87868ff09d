"""``ddpclassify categories``: the taxonomy, and what to do for each category."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from ddpclassify.language import say

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ddpclassify.taxonomy import Advice, Category

SCHEMA = "ddpclassify.category/1"
WIDTH = 80


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from ddpclassify import taxonomy

    return [CompletionItem(name) for name in taxonomy.names() if name.startswith(incomplete)]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", required=False, shell_complete=_complete)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line, one line a category.")
def categories(name: str | None, as_json: bool) -> None:
    """Show the categories of failure and what to do.

    Without NAME all of them in brief; with NAME one in full: what it means, what to look at first, the steps, how to
    tell it from its neighbours, and which flags would bring better evidence next time.
    """
    from ddpclassify import taxonomy

    try:
        found = [taxonomy.load(each) for each in ([name] if name else taxonomy.names())]
    except taxonomy.UnknownNameError as error:
        raise click.UsageError(f"{error} (without NAME all are listed)") from None
    if as_json:
        lines = [json.dumps({"schema": SCHEMA, **category.to_dict()}) for category in found]
    else:
        lines = _in_full(found[0]) if name else _table(found)
    # With None click decides: colours on a terminal only, or what the main command was told.
    click.echo("\n".join(lines), color=False if os.environ.get("NO_COLOR") else None)


def _wrap(text: str, first: str, rest: str) -> list[str]:
    from ddpclassify.report.words import wrap

    # Commands must stay whole to be copied, so only spaces may break a line.
    lines = wrap(text, WIDTH - max(len(first), len(rest)), whole=True)
    return [(rest if i else first) + line for i, line in enumerate(lines)]


def _table(found: list[Category]) -> list[str]:
    from ddpclassify.report.words import columns

    rows = [(say("name"), say("origin"), say("retry"))]
    rows += [(category.name, say(category.origin), say(category.retry)) for category in found]
    widths = [max(columns(row[i]) for row in rows) + 2 for i in range(2)]
    heads = [
        "".join(cell + " " * (w - columns(cell)) for cell, w in zip(row, [*widths, 0], strict=True)) for row in rows
    ]
    lines = [_heading(heads[0])]
    for category, head in zip(found, heads[1:], strict=True):
        lines += [head, *_wrap(category.summary, "    ", "    ")]
    return lines


def _in_full(category: Category) -> list[str]:
    lines = [_heading(f"{category.name}: {category.title}")]
    lines.append(say("origin: {origin}   retry: {retry}", origin=say(category.origin), retry=say(category.retry)))
    lines += ["", *_wrap(category.meaning, "", "")]
    lines += _advice(category.advice_for())
    if category.neighbours:
        lines += ["", _heading(say("Telling it from its neighbours"))]
        for neighbour in category.neighbours:
            lines += _wrap(f"{neighbour.category}: {neighbour.how}", "  ", "    ")
    if category.examples:
        lines += ["", _heading(say("What the log says, for example"))]
        for example in category.examples:
            lines += _wrap(example, "  ", "    ")
    if category.missing:
        lines += ["", _heading(say("Evidence for next time"))]
        for missing in category.missing:
            lines += _wrap(say("{when}:", when=missing.when), "  ", "  ")
            for flag in missing.flags:
                lines += _wrap(flag, "    ", "      ")
    if category.reasons:
        lines += ["", _heading(say("Reasons"))]
        for reason in category.reasons:
            retry = say(" (retry: {retry})", retry=say(reason.retry)) if reason.retry else ""
            lines += ["", *_wrap(f"{reason.id}: {reason.title}{retry}", "  ", "    ")]
            # What a reason shares with its category stands above already.
            if reason.first_check:
                lines += _wrap(say("First: {check}", check=reason.first_check), "    ", "    ")
            lines += _numbered(reason.steps, "    ")
    return lines


def _advice(advice: Advice) -> list[str]:
    return [
        "",
        _heading(say("First check")),
        *_wrap(advice.first_check, "  ", "  "),
        "",
        _heading(say("What to do")),
        *_numbered(advice.steps, "  "),
    ]


def _numbered(steps: tuple[str, ...], indent: str) -> list[str]:
    return [line for i, step in enumerate(steps, 1) for line in _wrap(step, f"{indent}{i}. ", f"{indent}   ")]


def _heading(text: str) -> str:
    return click.style(text, bold=True)
