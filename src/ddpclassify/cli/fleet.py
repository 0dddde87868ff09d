"""`ddpclassify fleet`."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ddpclassify.fleet.run import Counts
    from ddpclassify.fleet.store import Store


@click.command(
    epilog="LOG is a file, a 'pattern*', a folder of logs, a URL of one of these (with the extra fleet-remote), "
    "or - for a list on stdin. A second run reads what is new or has changed."
)
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="The folder of results.")
@click.option(
    "--summary",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Read no logs; tell what the results in DIR have in common.",
)
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Processes; all cores by default.")
@click.option("--backend", type=click.Choice(["loky", "dask", "ray"]), default="loky", show_default=True)
@click.option("--scheduler", metavar="ADDRESS", help="Of a Dask scheduler or a Ray cluster.")
@click.option("--part", type=click.IntRange(min=1), default=2000, show_default=True, help="Logs of a results file.")
@click.option("--parquet", is_flag=True, help="Write each part as a Parquet file as well (extra fleet-parquet).")
@click.option("--content", is_flag=True, help="Tell changed logs by their bytes, not by size and time.")
@click.option(
    "--model", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A model folder of your own."
)
@click.option("--since", type=click.DateTime(), help="Mark as new what was first seen then or later.")
@click.option("--days", type=click.IntRange(min=1), default=7, show_default=True, help="Compare so many last days.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The summary as a page.")
@click.option(
    "--metrics", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Counts for Prometheus."
)
def fleet(
    logs: tuple[str, ...],
    output: Path | None,
    summary: Path | None,
    jobs: int | None,
    backend: str,
    scheduler: str | None,
    part: int,
    parquet: bool,
    content: bool,
    model: Path | None,
    since: datetime | None,
    days: int,
    as_json: bool,
    html: Path | None,
    metrics: Path | None,
) -> None:
    """Diagnose any number of LOGs into a folder, and tell what the jobs have in common."""
    from ddpclassify.fleet.store import Store

    if summary is not None:
        if logs or output is not None:
            raise click.UsageError("--summary reads results, not logs")
        with Store(summary, writer=False) as store:
            _tell(store, since, days, not (html or metrics), as_json, html, metrics)
        return
    if not logs or output is None:
        raise click.UsageError("name LOGs and the folder for the results: ddpclassify fleet LOG... -o DIR")
    from ddpclassify.fleet.engine import Engine
    from ddpclassify.fleet.listing import listed
    from ddpclassify.fleet.run import run

    options: dict[str, Any] = {"model": model, "part": part, "content": content}
    if parquet:
        from ddpclassify.fleet.parquet import write

        options["written"] = write
    with Store(output, writer=True) as store, Engine(backend, jobs, scheduler) as engine:
        counts = run(listed(logs, sys.stdin), store, engine, told=_progress, **options)
        _tell(store, since, days, False, as_json, html, metrics)
    click.echo(
        f"{counts.diagnosed} diagnosed, {counts.unchanged} unchanged, {counts.unreadable} unreadable; "
        f"ddpclassify fleet --summary {output}",
        err=True,
    )
    if counts.stopped:
        click.echo("ddpclassify: stopped; the same command does the rest", err=True)
        sys.exit(130)
    if counts.unreadable:
        sys.exit(1)


def _progress(counts: Counts) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{counts.listed} logs ", err=True, nl=False)


def _tell(
    store: Store,
    since: datetime | None,
    days: int,
    shown: bool,
    as_json: bool,
    html: Path | None,
    metrics: Path | None,
) -> None:
    """Write what was asked for; the text only when nothing else was."""
    if not (shown or as_json or html or metrics):
        return
    import json

    from ddpclassify.fleet.summary import summarise

    found = summarise(store.db, since.isoformat() if since else None, days)
    if html is not None:
        from ddpclassify.fleet.page import page

        _write(html, page(found))
    if metrics is not None:
        from ddpclassify.fleet.metrics import exposition

        _write(metrics, exposition(found))
    if as_json:
        click.echo(json.dumps(found))
    elif shown:
        from ddpclassify.fleet.text import text

        click.echo(text(found))


def _write(path: Path, content: str) -> None:
    """Write under a temporary name and rename: a scraper must never see half a file."""
    from ddpclassify.types import InputError

    half = path.with_name(f".{path.name}.half")
    try:
        half.write_text(content, encoding="utf-8", newline="\n")
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise InputError(f"{path}: {error.strerror or error}") from error
