"""`ddpclassify train`."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.argument(
    "corpora",
    nargs=-1,
    required=True,
    metavar="CORPUS...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "-o", "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder for the model."
)
@click.option("--name", default="default", show_default=True, help="The model's name.")
@click.option("--jobs", default=-1, show_default="all cores", help="Processes that read logs.")
@click.option("--json", "as_json", is_flag=True, help="Print the held-out figures as JSON.")
def train(corpora: tuple[Path, ...], output: Path, name: str, jobs: int, as_json: bool) -> None:
    """Train a model on labelled corpora and write it with its card."""
    from ddpclassify.files import alone
    from ddpclassify.train import fit, load_samples, write_model

    samples = load_samples(list(corpora), jobs)
    with alone(output):
        training = fit(samples)
        card = write_model(training, samples, output, name)
    if as_json:
        click.echo(json.dumps(card["held_out"]))
        return
    click.echo(f"{len(samples)} logs, {card['held_out']['groups']} templates; figures of grouped held-out folds:")
    for key, value in card["held_out"].items():
        click.echo(f"  {key:<20} {value:.3f}" if isinstance(value, float) else f"  {key:<20} {value}")
    click.echo(f"wrote {output}")
