"""`ddpclassify train`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddpclassify.cli import options
from ddpclassify.cli.progress import counter, say
from ddpclassify.corpus import CATEGORIES

if TYPE_CHECKING:
    from ddpclassify.api import Model
    from ddpclassify.train.compare import Figures


def _weights(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for value in values:
        name, number = value.rpartition("=")[::2]
        try:
            found[name] = float(number)
        except ValueError:
            raise click.BadParameter(f"{value!r}: give NAME=NUMBER, like in-house=5") from None
        if not name or not 0 < found[name] < 1e6:
            raise click.BadParameter(f"{value!r}: give NAME=NUMBER with a number above 0")
    return found


@click.command(
    epilog="CORPUS is a folder with labels.jsonl, or with one subfolder a category, or such a folder as a tar archive."
)
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder for the model."
)
@click.option(
    "--with",
    "others",
    multiple=True,
    metavar="builtin|PATH",
    help="Train on this corpus too, without measuring on it; builtin: what the built-in model learned from.",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="NAME=NUMBER",
    callback=_weights,
    help="Weight of each log of a corpus, by its folder's name, or of a category; 1 by default.",
)
@click.option(
    "--categories",
    "own",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"Advice on categories of your own, TOML; by default {CATEGORIES} of each CORPUS.",
)
@click.option("--name", default="default", show_default=True, help="The model's name.")
@click.option("--force", is_flag=True, help="Overwrite a model that is better on these logs.")
@options.reading
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def train(
    corpora: tuple[Path, ...],
    output: Path,
    others: tuple[str, ...],
    weights: dict[str, float],
    own: Path | None,
    name: str,
    force: bool,
    reading: dict[str, Any],
    as_json: bool,
) -> None:
    """Train a model on labelled corpora and write it with its card.

    Prints how the old model (the one in the output folder, else the built-in one) and the new one do on the logs of
    CORPUS, neither having seen the logs that it is measured on.
    """
    from ddpclassify.api import default_folder
    from ddpclassify.files import alone
    from ddpclassify.train import compare, fit, load_samples, weights_of, write_model
    from ddpclassify.train.builtin import resolve
    from ddpclassify.types import InputError

    advice = _advice(corpora, own)
    replaces = (output / "card.json").exists()
    builtin = _load(default_folder())
    known = compare.read_marks(output if replaces else default_folder())
    # Without its held-out answers a model would be asked about logs that it was trained on.
    old = builtin if not replaces else _load(output) if known else None
    progress = counter()
    samples = load_samples(corpora, progress=progress, **reading)
    mine = range(len(samples))
    samples += load_samples(resolve(others), progress=progress, **reading) if others else []
    each = weights_of(samples, weights)
    say(f"fitting on {len(samples)} logs")
    with alone(output):
        training = fit(samples, weights=each, base=builtin.parts if builtin else None, asked=mine)
        given = samples[: len(mine)]
        marks = compare.marks_of_answers(given, [training.answers[i] for i in mine], {"threshold": training.threshold})
        new_figures = compare.figures(marks)
        old_figures = compare.figures(compare.marks_of_model(given, old.parts, old.card, known)) if old else None
        worse = old_figures is not None and old_figures.order > new_figures.order
        if as_json:
            report: dict[str, Any] = {"logs": len(given), "new": new_figures.to_dict()}
            report["old"] = old_figures.to_dict() if old_figures else None
            click.echo(
                json.dumps(report | {"written": force or not (worse and replaces), "held_out": training.held_out})
            )
        else:
            click.echo(_table(len(given), old_figures, new_figures, old))
        if worse and replaces and not force:
            raise InputError(f"{output}: the model there is better on these logs; --force overwrites it")
        write_model(training, samples, output, name, weights, advice)
        compare.write_marks(output, marks)
        if not as_json:
            click.echo(f"wrote {output}")


def _advice(corpora: tuple[Path, ...], own: Path | None) -> dict[str, Any]:
    """Return the tables of own categories, checked."""
    from ddpclassify.tables import read_toml
    from ddpclassify.taxonomy import load_file
    from ddpclassify.types import InputError

    files = [own] if own else [found for corpus in corpora if (found := corpus / CATEGORIES).is_file()]
    tables: dict[str, Any] = {}
    for file in files:
        try:
            load_file(file)
            tables |= read_toml(file)["category"]
        except (ValueError, OSError) as error:
            raise InputError(str(error)) from error
    return tables


def _load(folder: Path | None) -> Model | None:
    """Return the model of a folder; None, and a word about it, where it can't be read."""
    from ddpclassify.api import load_model
    from ddpclassify.types import InputError

    try:
        return None if folder is None else load_model(folder)
    except InputError as error:  # of another format, perhaps: training anew is the way out
        click.echo(f"ddpclassify: not compared with: {error}", err=True)
        return None


def _table(logs: int, old: Figures | None, new: Figures, model: Model | None) -> str:
    from ddpclassify.train.compare import FIGURES

    def cell(figures: Figures | None, index: int) -> str:
        share = figures.share(index) if figures else None
        return "–" if share is None else f"{share:.3f}"

    name = f"{model.card.get('name', '')} {model.card.get('version', '')}" if model else "none"
    lines = [
        f"right on {logs} logs that the models had not seen; old: {''.join(c for c in name if c.isprintable())}",
        f"{'':10}{'logs':>6}{'old':>8}{'new':>8}",
    ]
    lines += [f"{figure:10}{new.asked[i]:6}{cell(old, i):>8}{cell(new, i):>8}" for i, figure in enumerate(FIGURES)]
    return "\n".join(lines)
