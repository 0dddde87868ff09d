"""Options that commands share; they may stand before the command's name or behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

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


def reading(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that read whole corpora; they arrive as ``reading``, for `load_samples`."""

    @click.option("--cache", type=click.Path(file_okay=False, path_type=Path), help="Folder that keeps what was read.")
    @click.option("--no-cache", is_flag=True, help="Read every log anew.")
    @click.option("-j", "--jobs", default=-1, show_default="all cores", help="Processes that read logs.")
    @wraps(command)
    def wrapped(cache: Path | None, no_cache: bool, jobs: int, **others: Any) -> None:
        from ddpclassify.train.cache import default_cache

        if cache and no_cache:
            raise click.UsageError("--cache and --no-cache exclude each other")
        command(reading={"jobs": jobs, "cache": None if no_cache else cache or default_cache()}, **others)

    return wrapped


def paint(text: str) -> str:
    """Set off the headline and the labels of a text answer; `click.echo` drops it where colours are not wanted."""
    from ddpclassify.report.text import LABELS

    labels = {language.say(label) for label in LABELS}
    first, *lines = text.split("\n")
    for i, line in enumerate(lines):
        if (found := _LABEL.match(line)) and found[1] in labels:
            lines[i] = f"  {click.style(found[1], fg='cyan')}{line[found.end() :]}"
    return "\n".join([click.style(first, bold=True), *lines])
