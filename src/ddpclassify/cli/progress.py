"""Progress on standard error, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

__all__ = ["counter", "say"]


def say(text: str) -> None:
    """Say what comes next."""
    if sys.stderr.isatty():
        click.echo(text, err=True)


def counter() -> Callable[[str, int, int], None]:
    """Return what shows, given what is done, how many are and of how many; nothing where nobody looks."""
    if not sys.stderr.isatty():
        return lambda what, done, total: None

    def show(what: str, done: int, total: int) -> None:
        if done == total:
            click.echo("\r\x1b[K", nl=False, err=True)
        elif done % max(1, total // 200) == 0:
            click.echo(f"\r{what} {done}/{total}", nl=False, err=True)

    return show
