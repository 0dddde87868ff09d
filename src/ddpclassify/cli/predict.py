"""`ddpclassify predict`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command(
    epilog="LOG is a file, a folder of per-rank files (one job), a .gz, .bz2, .xz or .zst file, or - for stdin."
)
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a log, one a line.")
@click.option(
    "--model", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A model folder of your own."
)
@click.option("--exit-code", is_flag=True, help="Exit 10 when any log shows a failure.")
@click.option("-v", "--verbose", is_flag=True, help="All evidence, consequences and steps.")
@click.option("-q", "--quiet", is_flag=True, help="One line a log.")
def predict(
    logs: tuple[str, ...], as_json: bool, model: Path | None, exit_code: bool, verbose: bool, quiet: bool
) -> None:
    """Diagnose each LOG: the category, the culprit, the proof, and what to do."""
    from ddpclassify.api import load_model
    from ddpclassify.report import json_report, text_report
    from ddpclassify.types import SCHEMA, InputError

    if not logs and sys.stdin.isatty():
        raise click.UsageError("name a LOG, or pipe one in")
    loaded = load_model(model)
    failed = unread = False
    for number, log in enumerate(logs or ("-",)):
        try:
            folded, diagnosis = loaded.explain(log)
        except InputError as error:
            unread = True
            click.echo(f"ddpclassify: {error}", err=True)
            if as_json:
                click.echo(json.dumps({"schema": SCHEMA, "source": log, "error": str(error)}))
            continue
        failed = failed or diagnosis.category != "no_failure"
        if as_json:
            click.echo(json_report(diagnosis))
        else:
            click.echo(("\n" if number and not quiet else "") + text_report(diagnosis, verbose, quiet, folded))
    if unread:
        sys.exit(1)
    if exit_code and failed:
        sys.exit(10)
