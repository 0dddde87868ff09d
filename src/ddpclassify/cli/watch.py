"""`ddpclassify watch`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddpclassify.cli.options import paint
from ddpclassify.language import say

if TYPE_CHECKING:
    from ddpclassify.watch import News

SCHEMA = "ddpclassify.watch/1"
FAILED = 10  # exit status, as of `predict --exit-code`
_HOOK = 60  # seconds that a hook may take
_NEWS = {
    "recovered": "the job goes on: no failure any more",
    "resumed": "the silent ranks write again",
    "quiet": "no news: nobody has written a line for {seconds} s; slow work, or all are stuck",
}
_CALLS = ("failure", "changed", "hang")  # events that the hook is called for


@click.command(epilog="LOG is a file or a folder of per-rank files; neither need be there yet.")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each thing said, one a line.")
@click.option(
    "--exec", "hook", metavar="CMD", help="Run CMD in a shell at a failure or a hang; it gets the JSON on stdin."
)
@click.option("--once", is_flag=True, help="End with status 10 after the first failure or hang.")
@click.option(
    "--hang", default=300.0, show_default=True, type=click.FloatRange(1), help="Seconds of silence that are long."
)
@click.option(
    "--settle", default=5.0, show_default=True, type=click.FloatRange(0), help="Seconds a diagnosis must last."
)
@click.option(
    "--sure", default=0.95, show_default=True, type=click.FloatRange(0, 1), help="Least probability of a failure."
)
@click.option("--interval", default=0.5, show_default=True, type=click.FloatRange(0.05), help="Seconds between looks.")
@click.option("--timeout", type=click.FloatRange(0), help="End with status 0 after this many seconds.")
@click.option("--redact", is_flag=True, help="Mask tokens, keys, passwords and e-mail addresses.")
@click.option(
    "--model", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A model folder of your own."
)
def watch(
    log: Path,
    as_json: bool,
    hook: str | None,
    once: bool,
    hang: float,
    settle: float,
    sure: float,
    interval: float,
    timeout: float | None,
    redact: bool,
    model: Path | None,
) -> None:
    """Follow a growing log, and speak once a failure is clear, and again if it changes.

    A hang is said when ranks that wrote steadily say nothing for long while others go on; when nobody writes, that is
    only said to be no news. The file may be rotated, truncated or come late.
    """
    from ddpclassify.api import load_model
    from ddpclassify.redact import mask
    from ddpclassify.watch import Watcher

    if str(log) == "-":
        raise click.UsageError("watch follows a file; for a pipe there is `ddpclassify run -- COMMAND`")
    name = mask(str(log)) if redact else str(log)
    watcher = Watcher(log, load_model(model), sure, settle, hang, redact=redact)
    if not log.exists():
        click.echo("ddpclassify: " + say("waiting for {log}", log=name), err=True)
    began = time.monotonic()
    try:
        while timeout is None or time.monotonic() - began < timeout:
            for news in watcher.look():
                row = _row(name, news)
                click.echo(json.dumps(row) if as_json else paint(_text(news)))
                sys.stdout.flush()
                if news.event in _CALLS:
                    if hook:
                        _call(hook, row)
                    if once:
                        sys.exit(FAILED)
            time.sleep(interval)
    except KeyboardInterrupt:
        sys.exit(130)


def _row(source: str, news: News) -> dict[str, Any]:
    row: dict[str, Any] = {
        "schema": SCHEMA,
        "event": news.event,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "source": source,
    }
    if news.diagnosis is not None:
        row["diagnosis"] = news.diagnosis.to_dict()
    if news.hang is not None:
        row["silent_ranks"], row["active_ranks"] = list(news.hang.silent), list(news.hang.active)
        row["last_lines"] = [{"rank": rank, "text": text} for rank, text in news.last]
    if news.seconds:
        row["seconds"] = round(news.seconds, 1)
    return row


def _text(news: News) -> str:
    from ddpclassify.report import text_report
    from ddpclassify.report.words import rank_words, shorten

    at = time.strftime("%H:%M:%S")
    if news.event in ("failure", "changed") and news.diagnosis is not None:
        title = "" if news.event == "failure" else " " + say("the diagnosis has changed")
        return f"{at}{title}\n" + text_report(news.diagnosis, folded=news.folded)
    if news.event == "hang" and news.hang is not None:
        silent, active = rank_words(news.hang.silent, 16), rank_words(news.hang.active, 16)
        hang = say("hang: no line from {ranks} for {seconds} s", ranks=silent, seconds=f"{news.seconds:.0f}")
        others = "while {ranks} goes on" if len(news.hang.active) == 1 else "while {ranks} go on"
        lines = [say(others, ranks=active)]
        lines += [say("rank {rank} wrote last: {text}", rank=r, text=shorten(text, 50)) for r, text in news.last]
        lines += [say("look at its stack: {command}", command="py-spy dump --pid PID")]
        return "\n  ".join([f"{at} {hang}", *lines])
    return f"{at} " + say(_NEWS.get(news.event, news.event), seconds=f"{news.seconds:.0f}")


def _call(hook: str, row: dict[str, Any]) -> None:
    """Run the user's command; nothing of the log gets into its words, and its trouble is not ours."""
    diagnosis = row.get("diagnosis") or {}
    ranks = row.get("silent_ranks") or diagnosis.get("culprit_ranks") or []
    env = {
        "DDPCLASSIFY_EVENT": row["event"],
        "DDPCLASSIFY_LOG": row["source"],
        "DDPCLASSIFY_CATEGORY": diagnosis.get("category", ""),
        "DDPCLASSIFY_RANKS": ",".join(map(str, ranks[:1000])),
    }
    try:
        done = subprocess.run(
            hook,
            shell=True,
            input=json.dumps(row).encode(),
            stdout=sys.stderr.fileno(),
            env={**os.environ, **env},
            timeout=_HOOK,
            check=False,
        )
        trouble = say("ended with status {status}", status=done.returncode) if done.returncode else ""
    except (OSError, subprocess.SubprocessError) as error:
        trouble = str(error)
    if trouble:
        text = say("the --exec command {trouble}; the watch goes on", trouble=trouble)
        click.echo(f"ddpclassify: {text}", err=True)
