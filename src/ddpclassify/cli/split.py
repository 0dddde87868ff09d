"""`ddpclassify split`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from ddpclassify.language import say

SCHEMA = "ddpclassify.split/1"


@click.command(
    epilog="LOG is a file, a folder of per-rank files (one job), a .gz, .bz2, .xz or .zst file, or - for stdin."
)
@click.argument("log")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The folder to make.")
@click.option("-n", "--number", is_flag=True, help="Begin each line with its number: `sort -n DIR/*` is the log again.")
@click.option("--raw", is_flag=True, help="Keep colours and other terminal control codes.")
@click.option("--redact", is_flag=True, help="Mask tokens, keys, passwords and e-mail addresses.")
@click.option("--json", "as_json", is_flag=True, help="Say what was written as JSON.")
def split(log: str, output: Path, number: bool, raw: bool, redact: bool, as_json: bool) -> None:
    """Write one clean file a rank, and one for lines no rank owns.

    Every line of LOG is in exactly one of the parts, in its order.
    """
    from ddpclassify.report.words import rank_words
    from ddpclassify.split import REST
    from ddpclassify.split import split as split_log

    done = split_log(log, output, numbered=number, raw=raw, redact=redact)
    log = done.source
    if done.crowded:
        text = say("{log} names too many ranks; lines of those beyond the limit are in {rest}", log=log, rest=REST)
        click.echo(f"ddpclassify: {text}", err=True)
    for name in done.skipped:
        click.echo("ddpclassify: " + say("{log}: {name} could not be read", log=log, name=repr(name)), err=True)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, "output": str(output), **asdict(done)}))
    else:
        owned = [part for part in done.parts if part.rank is not None]
        rest = sum(part.lines for part in done.parts if part.file == REST)
        others = len(done.parts) - len(owned) - bool(rest)
        words = "{output}: {n} lines of {log}" if done.lines != 1 else "{output}: {n} line of {log}"
        click.echo(say(words, output=output, n=done.lines, log=log))
        if owned:
            ranks = rank_words([part.rank for part in owned if part.rank is not None])
            mine = sum(part.lines for part in owned)
            click.echo(
                "  rank*.log  "
                + say("{n} lines of {ranks}" if mine != 1 else "{n} line of {ranks}", n=mine, ranks=ranks)
            )
        if others:
            more = "{n} processes whose global rank the log does not tell"
            one = "{n} process whose global rank the log does not tell"
            click.echo("  *.local*.log  " + say(more if others > 1 else one, n=others))
        if rest:
            words = "{n} lines that no rank owns" if rest > 1 else "{n} line that no rank owns"
            click.echo(f"  {REST}  " + say(words, n=rest))
    if done.skipped:
        raise SystemExit(1)
