"""`ddpclassify report`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ddpclassify.language import say


@click.command(
    epilog="LOG is a file, a folder of per-rank files (one job), a .gz, .bz2, .xz or .zst file, or - for stdin."
)
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    default=Path("report.html"),
    show_default=True,
    help="The page to write; - for standard output.",
)
@click.option("--json", "as_json", is_flag=True, help="The diagnoses on standard output as well, one a line.")
@click.option("--redact", is_flag=True, help="Mask tokens, keys, passwords and e-mail addresses.")
@click.option(
    "--model", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A model folder of your own."
)
def report(logs: tuple[str, ...], output: Path, as_json: bool, redact: bool, model: Path | None) -> None:
    """Write one HTML page on the LOGs: the diagnosis, and how the failure spread through the ranks."""
    import json

    from ddpclassify.api import load_model
    from ddpclassify.page import page
    from ddpclassify.redact import mask
    from ddpclassify.report import json_report
    from ddpclassify.types import SCHEMA, InputError

    if not logs and sys.stdin.isatty():
        raise click.UsageError("name a LOG, or pipe one in")
    to_stdout = str(output) == "-"
    if to_stdout and as_json:
        raise click.UsageError("--json and -o - both want standard output")
    loaded = load_model(model)
    explained, unread = [], []
    for log in logs or ("-",):
        try:
            explained.append(loaded.explain(log, redact=redact))
        except InputError as error:
            log, said = (mask(log), mask(str(error))) if redact else (log, str(error))
            unread.append(said)
            click.echo(f"ddpclassify: {said}", err=True)
            if as_json:
                click.echo(json.dumps({"schema": SCHEMA, "source": log, "error": said}))
            continue
        if as_json:
            click.echo(json_report(explained[-1][1]))
    if explained:
        text = page(explained, unread)
        if to_stdout:
            click.echo(text)
        else:
            _write(output, text)
            click.echo(say("wrote {path}", path=output), err=True)
    if unread:
        sys.exit(1)


def _write(path: Path, text: str) -> None:
    """Write under a temporary name and rename, so that nobody ever sees half a page."""
    from ddpclassify.types import InputError

    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{path}: {error.strerror or error}") from error
