"""`ddpclassify predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ddpclassify import language
from ddpclassify.cli.options import paint
from ddpclassify.language import say

if TYPE_CHECKING:
    from ddpclassify.model.healthy import GoodRun

FEW = 32
"""Fewer logs than this are read one after the other: starting processes would take longer."""


class Style(NamedTuple):
    """How to report: all that a process needs to know besides the log."""

    model: Path | None
    as_json: bool
    verbose: bool
    quiet: bool
    language: str
    redact: bool = False
    sure: float | None = None
    explain: bool = False
    healthy: tuple[GoodRun, ...] = ()


class Report(NamedTuple):
    """What to print for one log; `error` goes to standard error; `failed` is None where it could not be read."""

    text: str
    error: str
    failed: bool | None
    restart: str = ""


@click.command(
    epilog="LOG is a file, a folder of per-rank files (one job), a .gz, .bz2, .xz or .zst file, or - for stdin."
)
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option(
    "--each", metavar="DIR", help="Every file and folder in DIR is a log; with - every line of stdin names one."
)
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Processes for many logs; all cores by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a log, one a line.")
@click.option(
    "--model", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A model folder of your own."
)
@click.option("--exit-code", is_flag=True, help="Exit 10 when any log shows a failure.")
@click.option(
    "--restart-code", is_flag=True, help="Exit 11 when a restart would help, 12 when not, 10 when that is not sure."
)
@click.option(
    "--sure", type=click.FloatRange(0, 1), default=0.8, show_default=True, help="Probability that --restart-code needs."
)
@click.option("--redact", is_flag=True, help="Mask tokens, keys, passwords and e-mail addresses.")
@click.option(
    "--healthy",
    metavar="LOG",
    type=click.Path(exists=True),
    multiple=True,
    help="A good run of the same job: failures that it shows as well count less. May be given several times.",
)
@click.option("--explain", is_flag=True, help="Show what spoke for the answer and against it, with its weight.")
@click.option("-v", "--verbose", is_flag=True, help="All evidence, consequences and steps.")
@click.option("-q", "--quiet", is_flag=True, help="One line a log.")
def predict(
    logs: tuple[str, ...],
    each: str | None,
    jobs: int | None,
    as_json: bool,
    model: Path | None,
    exit_code: bool,
    restart_code: bool,
    sure: float,
    redact: bool,
    healthy: tuple[str, ...],
    explain: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Diagnose each LOG: the category, the culprit, the proof, and what to do."""
    if not logs and each is None and sys.stdin.isatty():
        raise click.UsageError("name a LOG, or pipe one in")
    if each == "-" and "-" in logs:
        raise click.UsageError("standard input is either a log or the list of --each")
    if quiet and (verbose or explain):
        raise click.UsageError(f"either {'--verbose' if verbose else '--explain'} or --quiet")
    good = tuple(_good_runs(healthy, model, redact))
    spoken = language.current()
    style = Style(model, as_json, verbose, quiet, spoken, redact, sure if restart_code else None, explain, good)
    named = chain(logs, _listed(each)) if each is not None else iter(logs or ("-",))
    failed = unread = False
    restarts: set[str] = set()
    for number, report in enumerate(_reports(named, style, jobs)):
        failed, unread = failed or bool(report.failed), unread or report.failed is None
        restarts.add(report.restart)
        if report.error:
            click.echo(f"ddpclassify: {report.error}", err=True)
        if report.text:
            plain = quiet or as_json
            click.echo(report.text if plain else "\n" * bool(number) + paint(report.text))
    if unread:
        sys.exit(1)
    if restart_code and failed:
        from ddpclassify.fleet.restart import EXIT

        # Of several logs the least hopeful counts.
        sys.exit(next(EXIT[answer] for answer in ("no", "maybe", "yes") if answer in restarts))
    if exit_code and failed:
        sys.exit(10)


def _listed(each: str) -> Iterator[str]:
    if each == "-":
        yield from (name for line in sys.stdin if (name := line.rstrip("\r\n")))
        return
    from ddpclassify.read.sources import list_jobs

    yield from map(str, list_jobs(Path(each)))


def _good_runs(healthy: Iterable[str], model: Path | None, redact: bool) -> Iterator[GoodRun]:
    """Read the good runs; say which do not look like that."""
    for log in healthy:
        from ddpclassify.api import load_model

        run = load_model(model).good_run(log, redact=redact)
        if run.category not in ("no_failure", "unknown"):
            text = say(
                "{log}: given as a good run, but it looks failed itself: {category}",
                log=run.source,
                category=run.category,
            )
            click.echo(f"ddpclassify: {text}", err=True)
        yield run


def _reports(logs: Iterator[str], style: Style, jobs: int | None) -> Iterator[Report]:
    """Yield the reports in the order of the logs; of many logs, made by several processes."""
    first = list(islice(logs, FEW))
    if len(first) < FEW or jobs == 1 or "-" in first:
        yield from (report(log, style) for log in chain(first, logs))
        return
    yield from _shown(_parallel(chain(first, logs), style, jobs))


def _parallel(logs: Iterable[str], style: Style, jobs: int | None) -> Iterator[Report]:
    import warnings
    from concurrent.futures import BrokenExecutor

    from joblib import Parallel, delayed

    from ddpclassify.types import InputError

    # Whoever reads us may have seen enough, as `head` has.
    warnings.filterwarnings("ignore", r"\d+ tasks .* not used", UserWarning)
    # So many logs are read ahead of the one that is to be printed, however long the list.
    pool = Parallel(n_jobs=jobs or -1, return_as="generator", pre_dispatch="8 * n_jobs", batch_size=4)
    try:
        yield from pool(delayed(report)(log, style) for log in logs)
    except BrokenExecutor as error:
        raise InputError(f"a process was killed, perhaps for want of memory; try --jobs 1 ({error})") from error


def _shown(reports: Iterable[Report]) -> Iterator[Report]:
    """Pass the reports on, counting them on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield from reports
        return
    from time import monotonic

    shown = 0.0
    for number, each in enumerate(reports, 1):
        if monotonic() - shown > 0.2:
            shown = monotonic()
            click.echo(f"\r{number} logs", err=True, nl=False)
        if each.text and sys.stdout.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)
        yield each
    click.echo("\r\x1b[K", err=True, nl=False)


def report(log: str, style: Style) -> Report:
    """Diagnose one log and write its report."""
    import json

    from ddpclassify.api import load_model
    from ddpclassify.redact import mask
    from ddpclassify.report import json_report, text_report
    from ddpclassify.types import SCHEMA, InputError

    language.use(style.language)
    model = load_model(style.model)
    try:
        folded, diagnosis = model.explain(log, redact=style.redact, weights=style.explain, healthy=style.healthy)
    except InputError as error:
        said = str(error)
        if style.redact:
            log, said = mask(log), mask(said)
        row = json.dumps({"schema": SCHEMA, "source": log, "error": said}) if style.as_json else ""
        return Report(row, said, None)
    text = json_report(diagnosis) if style.as_json else text_report(diagnosis, style.verbose, style.quiet, folded)
    answer = ""
    if style.sure is not None:
        from ddpclassify.fleet.restart import restart

        answer = restart(diagnosis, style.sure)
    same = any(run.is_same_log(folded) for run in style.healthy)
    warning = say("{log}: given as its own good run, which tells nothing", log=diagnosis.source) if same else ""
    return Report(text, warning, diagnosis.category != "no_failure", answer)
