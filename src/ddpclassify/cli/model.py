"""`ddpclassify model`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ddpclassify.api import Model

TERMS = 20


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--terms", "category", metavar="CATEGORY", help="The words and features that speak most for a category.")
@click.option("--export", "form", type=click.Choice(["joblib"]), help="Write the models as scikit-learn pipelines.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File for --export.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def model(path: Path | None, category: str | None, form: str | None, output: Path | None, as_json: bool) -> None:
    """Show what a model file holds: version, corpus, held-out figures, checksum.

    PATH is a model folder; by default the built-in one. A file written with --export is a pickle, as scikit-learn's
    are: for your own notebooks, not for strangers.
    """
    from ddpclassify import load_model
    from ddpclassify.report.words import clean

    if bool(form) != bool(output):
        raise click.UsageError("--export and -o go together")
    found = load_model(path)
    if output:
        _export(found, output)
        return
    if category:
        weights = _weights(found, category)
        lines = [f"{weight:+8.3f}  {term}" for term, weight in weights]
        click.echo(json.dumps(dict(weights)) if as_json else "\n".join(map(clean, lines)))
        return
    click.echo(json.dumps(found.card) if as_json else "\n".join(map(clean, _lines(found.card))))


def _export(found: Model, output: Path) -> None:
    import io

    import joblib

    from ddpclassify.files import write_whole
    from ddpclassify.train.export import pipelines

    content = io.BytesIO()
    joblib.dump(pipelines(found.parts), content)
    write_whole(output, content.getvalue())
    click.echo(f"wrote {output}")


def _weights(found: Model, category: str) -> list[tuple[str, float]]:
    """Return the inputs of greatest weight for a category, the weightiest first."""
    from ddpclassify.report.words import clean

    part = found.parts.category
    if category not in part.classes:
        raise click.UsageError(f"the model does not know {category!r}; it knows {clean(', '.join(part.classes))}")
    wanted = part.classes.index(category)
    sign = 1.0
    if len(part.intercept) == 1:  # of two categories, the one output speaks for the second
        wanted, sign = 0, 1.0 if wanted else -1.0
    spelled = [*part.terms, *part.names]
    weights = ((spelled[i], sign * dict(part.coef[i]).get(wanted, 0.0)) for i in range(len(spelled)))
    return sorted(weights, key=lambda pair: (-pair[1], pair[0]))[:TERMS]


def _lines(card: dict[str, Any]) -> Iterator[str]:
    """A card on a terminal: nested figures on one line each, tables inside them left out."""
    for key, value in card.items():
        if not isinstance(value, dict):
            yield f"{key:12}{_value(value)}"
            continue
        yield key
        for name, inner in value.items():
            yield f"  {name:22}{_value(inner)}"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_value(v)}" for k, v in value.items() if not isinstance(v, (dict, list)))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
