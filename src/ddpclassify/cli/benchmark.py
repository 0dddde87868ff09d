"""``ddpclassify benchmark``: the model beside the rule baselines on labelled logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddpclassify.cli.progress import counter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddpclassify.corpus import Labelled
    from ddpclassify.evaluation.runners import Run

OURS = ("model", "rules", "guide")


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
@click.option("--errors", "show_errors", is_flag=True, help="Also list each wrong answer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def benchmark(
    corpus: Path,
    predictions: dict[str, Path],
    model_path: Path | None,
    no_model: bool,
    show_errors: bool,
    as_json: bool,
) -> None:
    """Measure the model beside the rule baselines on labelled logs.

    CORPUS is a folder with labels.jsonl, or with one subfolder a category, or such a folder as a tar file. Prints how
    often category, culprit and evidence are right, with 95 % intervals, then what is taken for what, then the same by
    category and launcher.
    """
    from ddpclassify.corpus import load_corpus
    from ddpclassify.evaluation.metrics import mark
    from ddpclassify.evaluation.prediction import read_answers
    from ddpclassify.evaluation.runners import Run
    from ddpclassify.evaluation.tables import errors, to_json, to_text
    from ddpclassify.types import InputError

    if no_model and model_path:
        raise click.UsageError("--model and --no-model exclude each other")
    try:
        labelled = load_corpus(corpus)
        others = {name: Run(read_answers(path, [each.log for each in labelled])) for name, path in predictions.items()}
        runs = _run_ours(labelled, model_path, no_model) | others
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
    if as_json:
        report = to_json(str(corpus), labelled, runs, marks)
        click.echo(json.dumps(report | ({"errors": wrong} if show_errors else {})))
        return
    lines = to_text(str(corpus), labelled, runs, marks)
    if show_errors:
        lines += ["", "wrong answers", *(_error_line(each) for each in wrong)]
    click.echo("\n".join(lines))


def _run_ours(labelled: Sequence[Labelled], model_path: Path | None, no_model: bool) -> dict[str, Run]:
    from ddpclassify.baselines import BASELINES
    from ddpclassify.evaluation.runners import run_baseline, run_model

    tick = counter()
    runs: dict[str, Run] = {}
    if not no_model:
        runs["model"] = run_model(_load(model_path), labelled, tick)
    for name in BASELINES:
        runs[name] = run_baseline(name, labelled, tick)
    return runs


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
