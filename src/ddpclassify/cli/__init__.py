"""The command line: one module a command, imported when the command runs."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Any

import click

from ddpclassify import __version__
from ddpclassify.cli import options

# Sections of --help: command → what it does. The module of a command has its name.
SECTIONS: dict[str, dict[str, str]] = {
    "Diagnose": {
        "predict": "Say what failed, which rank first, which line proves it, what to do.",
        "run": "Start a job, pass its output through, and diagnose it when it fails.",
        "watch": "Follow a growing log, and speak once a failure is clear.",
        "split": "Write one clean file a rank.",
        "report": "Write one HTML page: the diagnosis, and how the failure spread through the ranks.",
        "fleet": "Diagnose any number of logs, and tell what the jobs have in common.",
        "categories": "Explain the categories of failure and what to do about each.",
    },
    "Learn and measure": {
        "generate": "Make a labelled corpus of failing jobs, run here or rendered.",
        "train": "Train a model on labelled corpora.",
        "benchmark": "Measure the model beside the rule baselines.",
        "label": "Label logs of your own, those first that teach most.",
        "model": "Show what a model holds: corpus, figures, weightiest terms.",
    },
}

_READER_GONE = 128 + 13  # 13: SIGPIPE

HELP = """Read the log of a failed distributed PyTorch job and say what happened.

\b
  ddpclassify predict job.log
  ddpclassify run -- torchrun --nproc-per-node 8 train.py
  kubectl logs job-worker-0 | ddpclassify predict --json | jq .culprit_ranks
"""


class Lazy(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = getattr(import_module(f"ddpclassify.cli.{cmd_name}"), cmd_name)
        shared = [options.no_color(), *([options.lang()] if cmd_name in SECTIONS["Diagnose"] else [])]
        taken = {param.name for param in command.params}
        command.params += [option for option in shared if option.name not in taken]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            ctx.fail(f"no such command {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Our reader is gone, as `head` is once it has seen enough. That is no mistake: not a word, and the status
            # of programs that the signal ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # takes what is still to be flushed
            ctx.exit(_READER_GONE)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[options.lang(), options.no_color()],
    help=HELP,
)
@click.version_option(__version__, message="ddpclassify %(version)s")
def cli() -> None:
    pass


def main() -> None:
    """Run the command line; a user's mistake never shows a traceback."""
    from ddpclassify.types import InputError

    gc.set_threshold(50_000)  # the usual 700 costs a diagnosis some 5 % of its time, and finds nothing to free
    try:
        cli.main(prog_name="ddpclassify")
    except InputError as error:
        click.echo(f"ddpclassify: {error}", err=True)
        sys.exit(1)
    except OSError as error:  # no room, no right, a device that is gone: nothing that a traceback would explain
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"ddpclassify: {where}{error.strerror or error}", err=True)
        sys.exit(1)
