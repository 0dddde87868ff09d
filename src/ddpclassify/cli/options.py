"""Options that commands share; they may stand before the command's name or behind it."""

from __future__ import annotations

import os
import re

import click

from ddpclassify import language

_LABEL = re.compile(r"^  (\S+)(?=\s)")


def _speak(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        language.use(value)
    elif ctx.parent is None:
        language.use(language.from_environment())


def _colour(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value or os.environ.get("NO_COLOR"):
        ctx.color = False


def lang() -> click.Option:
    """Return the option ``--lang``."""
    choice = click.Choice(language.LANGUAGES)
    help = "Language of what is said and advised; by default that of LC_ALL or LANG."
    return click.Option(["--lang"], type=choice, help=help, expose_value=False, callback=_speak)


def no_color() -> click.Option:
    """Return the option ``--no-color``."""
    help = "No colours, also on a terminal (as with NO_COLOR)."
    return click.Option(["--no-color"], is_flag=True, help=help, expose_value=False, callback=_colour)


def paint(text: str) -> str:
    """Set off the headline and the labels of a text answer; `click.echo` drops it where colours are not wanted."""
    from ddpclassify.report.text import LABELS

    labels = {language.say(label) for label in LABELS}
    first, *lines = text.split("\n")
    for i, line in enumerate(lines):
        if (found := _LABEL.match(line)) and found[1] in labels:
            lines[i] = f"  {click.style(found[1], fg='cyan')}{line[found.end() :]}"
    return "\n".join([click.style(first, bold=True), *lines])
