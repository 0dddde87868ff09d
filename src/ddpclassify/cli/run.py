"""`ddpclassify run`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from ddpclassify.cli.options import paint
from ddpclassify.language import say
from ddpclassify.wrap.settings import SETTINGS

# What a death that left no word in the log points to.
_SIGNALS = {
    "SIGKILL": "often a memory limit: look at `dmesg -T | grep -i oom` and at the scheduler's account of the job",
    "SIGTERM": "somebody stopped it: the scheduler (time limit, preemption) or a person",
    "SIGINT": "Ctrl-C",
    "SIGHUP": "the terminal or the connection was closed: start it with nohup, tmux or the scheduler",
    "SIGSEGV": "a native crash: look for a core file, or run it with PYTHONFAULTHANDLER=1",
}


def _silent_end(status: int) -> str:
    """What to say of a job that failed without a failure in its log."""
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        text = say("the log shows no failure; the command's own exit status was {status}", status=status)
        return f"ddpclassify: {text}"
    text = say("the log shows no failure; the job was ended by {signal}", signal=name)
    hint = _SIGNALS.get(name)
    return f"ddpclassify: {text}" + (say(" ({hint})", hint=say(hint)) if hint else "")


def _switches(command: Callable[..., None]) -> Callable[..., None]:
    for setting in reversed(SETTINGS):
        what = f"{setting.variable}={setting.value}" if setting.variable else setting.value
        what = what.replace("{folder}", "…")
        text = f"Leave out {what} ({setting.why})."
        command = click.option(f"--no-{setting.name}", is_flag=True, help=text)(command)
    return command


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Example: ddpclassify run -- torchrun --nproc-per-node 8 train.py --lr 0.1",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--logs",
    default="ddpclassify-logs",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Keep each run's full log in a folder of its own in here.",
)
@_switches
@click.option("--plain", is_flag=True, help="Leave out all of these: run the command as it stands.")
@click.option("--no-diagnosis", is_flag=True, help="Only pass through and keep the log.")
@click.option("--json", "as_json", is_flag=True, help="The diagnosis as one line of JSON.")
@click.option(
    "--redact",
    is_flag=True,
    help="Mask tokens, keys, passwords and e-mail addresses in the diagnosis; the kept log is as the job wrote it.",
)
@click.option(
    "--model", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A model folder of your own."
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but the diagnosis of a failure.")
def run(
    command: tuple[str, ...],
    logs: Path,
    plain: bool,
    no_diagnosis: bool,
    as_json: bool,
    redact: bool,
    model: Path | None,
    quiet: bool,
    **switches: bool,
) -> None:
    """Start a job, keep its full log, and diagnose it when it fails.

    Its output passes through unchanged and as it comes, signals are passed on, and the exit status is the job's own
    (128 + n when signal n ended it). What ddpclassify itself has to say goes to standard error.
    """
    from ddpclassify.wrap import run_job

    off = {setting.name for setting in SETTINGS if plain or switches[f"no_{setting.name.replace('-', '_')}"]}

    def diagnose(log: Path | Iterator[bytes], status: int, error_file: Path | None) -> str:
        from ddpclassify.api import load_model
        from ddpclassify.report import json_report, text_report
        from ddpclassify.wrap.error_file import explain

        folded, diagnosis = explain(load_model(model), log, error_file, redact)
        if as_json:
            return json_report(diagnosis)
        if diagnosis.category == "no_failure" or not diagnosis.failures:
            return _silent_end(status)
        text = text_report(diagnosis, folded=folded)
        return paint(text) if sys.stderr.isatty() and context.color is not False else text

    context = click.get_current_context()
    sys.exit(run_job(list(command), logs, off, quiet, None if no_diagnosis else diagnose))
