"""`ddpclassify generate`."""

from __future__ import annotations

import os
from pathlib import Path

import click


def _ranks(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        ranks = tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter("give numbers of ranks, like 2,4,8") from None
    if not all(2 <= n <= 64 for n in ranks):
        raise click.BadParameter("a job has 2 to 64 ranks here")
    return ranks


@click.command()
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the corpus.")
@click.option("--count", default=100, show_default=True, type=click.IntRange(1), help="Number of logs.")
@click.option("--seed", default=0, show_default=True, help="The same seed draws the same jobs.")
@click.option("--faults", default="*", help="Only faults whose id fits this pattern, like 'run-code-*'.")
@click.option("--launchers", default="*", help="Only launchers whose name fits this pattern, like 'torchrun*'.")
@click.option("--ranks", default="2,2,3,3,4,4,6,8", show_default=True, callback=_ranks, help="Ranks to draw from.")
@click.option("--rendered", is_flag=True, help="Render logs from message formats instead of running jobs.")
@click.option(
    "--jobs",
    default=lambda: len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    show_default="cores",
    type=click.IntRange(1),
    help="Jobs at a time.",
)
@click.option("--list", "list_all", is_flag=True, help="List faults and launchers, and stop.")
@click.option("--dry-run", is_flag=True, help="Print the plan, and run nothing.")
@click.option(
    "--check",
    "corpus",
    type=click.Path(exists=True, path_type=Path),
    help="Check the labels of this corpus against its logs, and stop; exits with 1 when one is wrong.",
)
def generate(
    output: Path | None,
    count: int,
    seed: int,
    faults: str,
    launchers: str,
    ranks: tuple[int, ...],
    rendered: bool,
    jobs: int,
    list_all: bool,
    dry_run: bool,
    corpus: Path | None,
) -> None:
    """Make a labelled corpus: failing jobs that are run here (needs torch), or rendered logs.

    A run that was killed goes on where it stopped when the same command is given again.
    """
    if list_all:
        _list(rendered)
        return
    if corpus is not None:
        _check(corpus)
        return
    if output is None and not dry_run:
        raise click.UsageError("give a folder with -o, or --dry-run")
    if rendered:
        from ddpclassify.generate.rendered.render import plan, render_corpus

        if launchers != "*":
            raise click.UsageError("--launchers is for jobs that are run, not with --rendered")
        names = plan(count, seed, pattern=faults)
        if not names:
            raise click.UsageError(f"no fault fits {faults!r}; --list --rendered shows all")
        if dry_run:
            click.echo("\n".join(names))
            return
        assert output is not None
        render_corpus(output, count, seed, pattern=faults, workers=jobs)
        click.echo(f"rendered logs in {output}", err=True)
        return
    from ddpclassify.generate.jobs import make_plan, run_all

    try:
        todo = make_plan(count, seed, faults, launchers, ranks)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if dry_run:
        for job in todo:
            click.echo(f"{job.name} {job.fault.id} {job.workload} {job.launcher.name} {job.ranks} ranks")
        return
    assert output is not None
    recorded = run_all(todo, output, jobs, lambda text: click.echo(text, err=True))
    click.echo(f"{recorded} logs recorded in {output}; {len(todo)} jobs planned", err=True)


def _check(corpus: Path) -> None:
    from ddpclassify.corpus.check import check

    offences = 0
    for offences, offence in enumerate(check(corpus), 1):  # noqa: B007
        click.echo(offence)
    if offences:
        raise click.exceptions.Exit(1)
    click.echo(f"{corpus}: every label fits its log", err=True)


def _list(rendered: bool) -> None:
    if rendered:
        from ddpclassify.generate.rendered.render import templates

        for name, template in sorted(templates().items()):
            click.echo(f"{template.category:20} {name}")
        return
    from ddpclassify.generate.jobs import faults
    from ddpclassify.generate.jobs.launchers import LAUNCHERS
    from ddpclassify.generate.jobs.plan import available, installed_program

    for fault in faults():
        click.echo(f"{fault.category:20} {fault.reason:20} {fault.id}")
    for launcher in LAUNCHERS.values():
        absent = "not installed" if not installed_program(launcher) else f"`{launcher.ready}` fails"
        click.echo(f"{'launcher':20} {launcher.name:20} {'' if available(launcher) else absent}".rstrip())
