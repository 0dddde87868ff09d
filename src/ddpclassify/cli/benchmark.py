"""``ddpclassify benchmark``: the model beside the rule baselines on labelled logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddpclassify.cli import options
from ddpclassify.cli.progress import counter, say
from ddpclassify.corpus.groups import GROUPINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddpclassify.corpus import Labelled
    from ddpclassify.evaluation.metrics import Marks
    from ddpclassify.evaluation.runners import Run

OURS = ("model", "rules", "guide", "launcher", "first")


def _named_file(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    named: dict[str, Path] = {}
    for value in values:
        name, separator, file = value.partition("=")
        path = Path(file if separator else value)
        name = name if separator else path.stem
        if name in named or name in OURS:
            raise click.BadParameter(f"the name {name!r} is taken: give another as NAME=FILE")
        named[name] = path
    return named


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("corpus", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--predictions",
    metavar="[NAME=]FILE",
    multiple=True,
    callback=_named_file,
    help="Another tool's answers as JSON Lines, as `predict --json` prints them. May be given more than once.",
)
@click.option("--model", "model_path", type=click.Path(path_type=Path), help="A model folder of your own.")
@click.option("--no-model", is_flag=True, help="Measure the baselines only.")
@click.option(
    "--held-out",
    "grouping",
    type=click.Choice(GROUPINGS),
    help="Measure models that are trained here, each asked about logs of a template, launcher or workload unseen.",
)
@click.option(
    "--with",
    "more",
    multiple=True,
    metavar="builtin|PATH",
    help="With --held-out: learn from this corpus too; builtin: what the built-in model learned from.",
)
@options.reading
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for report.json and a picture a tool: what is taken for what, and how right confident answers are.",
)
@click.option("--errors", "show_errors", is_flag=True, help="Also list each wrong answer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def benchmark(
    corpus: Path,
    predictions: dict[str, Path],
    model_path: Path | None,
    no_model: bool,
    grouping: str | None,
    more: tuple[str, ...],
    reading: dict[str, Any],
    output: Path | None,
    show_errors: bool,
    as_json: bool,
) -> None:
    """Measure the model beside the rule baselines on labelled logs.

    CORPUS is a folder with labels.jsonl, or with one subfolder a category, or such a folder as a tar file. Prints how
    often category, culprit and evidence are right, with 95 % bootstrap intervals, McNemar's test against each other
    tool, then what is taken for what, then the same by category, launcher, provenance and damage. Two of the baselines
    name a culprit only: `launcher`, the launcher's own table, and `first`, the first rank that reports an error.
    """
    from ddpclassify.corpus import load_corpus
    from ddpclassify.evaluation.metrics import mark
    from ddpclassify.evaluation.prediction import read_answers
    from ddpclassify.evaluation.runners import Run
    from ddpclassify.evaluation.tables import errors, to_json, to_text
    from ddpclassify.types import InputError

    if no_model + bool(model_path) + bool(grouping) > 1:
        raise click.UsageError("--model, --no-model and --held-out exclude each other")
    if more and not grouping:
        raise click.UsageError("--with goes with --held-out")
    try:
        labelled = load_corpus(corpus)
        others = {name: Run(read_answers(path, [each.log for each in labelled])) for name, path in predictions.items()}
        runs = _run_model(corpus, labelled, model_path, grouping, more, reading) if not no_model else {}
        runs |= _run_baselines(labelled) | others
    except InputError as error:
        raise click.ClickException(str(error)) from None
    for name, run in runs.items():
        for problem in run.unread:
            click.echo(f"ddpclassify: {name}: {problem}", err=True)
    marks = {name: mark(labelled, run.predictions) for name, run in runs.items()}
    wrong: list[dict[str, Any]] = []
    if show_errors:
        for name, run in runs.items():
            wrong += errors(name, labelled, run.predictions, marks[name])
    name = f"{corpus}, by models that saw no such {grouping}" if grouping else str(corpus)
    if output or as_json:
        report = to_json(name, labelled, runs, marks) | ({"errors": wrong} if show_errors else {})
    if output:
        _save(output, report, runs, marks)
    if as_json:
        click.echo(json.dumps(report))
        return
    lines = to_text(name, labelled, runs, marks)
    if show_errors:
        lines += ["", "wrong answers", *(_error_line(each) for each in wrong)]
    click.echo("\n".join(lines))


def _run_model(
    corpus: Path,
    labelled: Sequence[Labelled],
    path: Path | None,
    grouping: str | None,
    more: tuple[str, ...],
    reading: dict[str, Any],
) -> dict[str, Run]:
    """Return the answers of a model, or of models that saw no log of the group they are asked about."""
    from ddpclassify.evaluation.prediction import from_dict
    from ddpclassify.evaluation.runners import Run, run_model

    if grouping is None:
        return {"model": run_model(_load(path), labelled, counter())}
    from ddpclassify.api import default_folder
    from ddpclassify.train.builtin import resolve
    from ddpclassify.train.heldout import held_out
    from ddpclassify.train.samples import load_samples

    samples = load_samples([corpus], progress=counter(), **reading)
    base = _load(None).parts if default_folder() else None
    others = load_samples(resolve(more), progress=counter(), **reading) if more else []
    return {"model": Run([from_dict(each.to_dict()) for each in held_out(samples, grouping, others, say, base)])}


def _run_baselines(labelled: Sequence[Labelled]) -> dict[str, Run]:
    from ddpclassify.baselines import BASELINES
    from ddpclassify.evaluation.runners import run_baseline

    tick = counter()
    return {name: run_baseline(name, labelled, tick) for name in BASELINES}


def _save(folder: Path, report: dict[str, Any], runs: dict[str, Run], marks: dict[str, Marks]) -> None:
    from ddpclassify.evaluation.picture import picture
    from ddpclassify.files import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "report.json", json.dumps(report, indent=1) + "\n")
    for name, own in marks.items():
        if any(own.given):
            write_whole(folder / f"{name.replace('/', '_')}.svg", picture(name, own, runs[name].predictions))


def _load(path: Path | None) -> Any:
    try:
        from ddpclassify import load_model
    except ImportError as error:
        raise click.ClickException(
            f"no model can be loaded ({error}); --no-model measures the baselines only"
        ) from None
    return load_model(path)


def _error_line(error: dict[str, Any]) -> str:
    def side(of: dict[str, Any]) -> str:
        ranks = ",".join(map(str, of["culprit_ranks"] or ()))
        return f"{of['category']} {of['scope']}[{ranks}] @{','.join(of['evidence']) or '-'}"

    return f"{error['tool']} {error['log']}: label {side(error['label'])}; answer {side(error['answer'])}"
