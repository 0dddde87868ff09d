"""`ddpclassify label`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddpclassify.cli.options import paint
from ddpclassify.cli.progress import counter

if TYPE_CHECKING:
    from ddpclassify.types import Diagnosis

ASK = "[a]ccept, [c]orrect, [s]kip or [q]uit"


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--model", "model_path", type=click.Path(exists=True, path_type=Path), help="A model folder of your own.")
@click.option("-j", "--jobs", default=-1, show_default="all cores", help="Processes that read logs.")
def label(folder: Path, model_path: Path | None, jobs: int) -> None:
    """Label the logs of FOLDER, those first that teach most.

    Every file in FOLDER is a log, and every folder in it a job of per-rank files. Of those without a label the one
    comes next whose diagnosis is least certain and least like those labelled already. Labels go to FOLDER/labels.jsonl
    one by one: stop whenever you like, and go on with the same command. Then train:

    \b
      ddpclassify train FOLDER --with builtin -o our-model/
    """
    from ddpclassify.files import alone

    with alone(folder):
        _label(folder, model_path, jobs)


def _label(folder: Path, model_path: Path | None, jobs: int) -> None:
    from ddpclassify.corpus import LABELS, load_corpus
    from ddpclassify.files import add_line
    from ddpclassify.report.text import text_report
    from ddpclassify.train.choice import next_to_label

    file = folder / LABELS
    done = {each.log for each in load_corpus(folder)} if file.is_file() and file.stat().st_size else set[str]()
    found = _diagnoses(folder, model_path, jobs)
    labelled = [found.pop(log) for log in sorted(done & set(found))]
    while found:
        log = next_to_label(found, labelled)
        diagnosis = found[log]
        click.echo(f"\n{paint(text_report(diagnosis))}\n")
        try:
            row = _ask(diagnosis)
        except (click.Abort, EOFError):
            row = {}
        if row == {}:
            break
        del found[log]
        if row is not None:
            add_line(file, json.dumps({"log": log, **row}))
            labelled.append(diagnosis)
    click.echo(f"{len(labelled)} logs labelled in {file}" + (f", {len(found)} left" if found else ""))


def _logs(folder: Path) -> list[Path]:
    """Every file and folder that may be a log: labels and advice are none."""
    return sorted(p for p in folder.iterdir() if p.suffix not in (".jsonl", ".toml") and not p.name.startswith("."))


def _diagnoses(folder: Path, model_path: Path | None, jobs: int) -> dict[str, Diagnosis]:
    from joblib import Parallel, delayed

    paths, progress = _logs(folder), counter()
    pool = Parallel(n_jobs=jobs, return_as="generator")
    out: dict[str, Diagnosis] = {}
    for number, (path, got) in enumerate(zip(paths, pool(delayed(_one)(p, model_path) for p in paths), strict=True), 1):
        progress("logs read", number, len(paths))
        if isinstance(got, str):
            click.echo(f"ddpclassify: {got}", err=True)
        else:
            out[path.name] = got
    return out


def _one(path: Path, model_path: Path | None) -> Diagnosis | str:
    """Diagnose one log; a line of text where it can't be read."""
    from ddpclassify import load_model
    from ddpclassify.types import InputError

    model = load_model(model_path)
    try:
        return model.diagnose(path)
    except InputError as error:
        return str(error)


def _ask(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """Return the label that a person gives; None for none, an empty one to stop."""
    choices = click.Choice(["a", "c", "s", "q"])
    while True:
        answer = click.prompt(ASK, type=choices, show_choices=False)
        if answer == "a" and diagnosis.category == "unknown":
            click.echo("'unknown' is an answer, not a label: correct it, or skip")
            continue
        if answer in ("a", "c"):
            return _proposed(diagnosis) if answer == "a" else _corrected(diagnosis)
        return None if answer == "s" else {}


def _proposed(diagnosis: Diagnosis) -> dict[str, Any]:
    lines = [f"{e['file']}:{e['line']}" if e["file"] else e["line"] for e in diagnosis.evidence]
    return {
        "category": diagnosis.category,
        "scope": diagnosis.scope,
        "culprit_ranks": diagnosis.culprit_ranks,
        "evidence_lines": lines,
    }


def _corrected(diagnosis: Diagnosis) -> dict[str, Any]:
    """Ask field by field, each with what was proposed."""
    from ddpclassify.corpus import SCOPES

    row = _proposed(diagnosis)
    row["category"] = _prompt("category (? lists them)", diagnosis.candidates[0]["category"], _category)
    if row["category"] == "no_failure":
        return row | {"scope": "none", "culprit_ranks": [], "evidence_lines": []}
    scope = diagnosis.scope if diagnosis.scope != "none" else "unknown"
    row["scope"] = click.prompt("scope", default=scope, type=click.Choice(SCOPES))
    row["culprit_ranks"] = []
    if row["scope"] == "ranks":
        proposed = ",".join(map(str, diagnosis.culprit_ranks)) or None
        row["culprit_ranks"] = click.prompt("culprit ranks", default=proposed, value_proc=_numbers)
    proposed = ",".join(map(str, row["evidence_lines"]))
    lines = _prompt("lines that prove it", proposed, str)
    row["evidence_lines"] = [int(x) if x.isdecimal() else x for part in lines.split(",") if (x := part.strip())]
    return row


def _prompt(text: str, proposed: str, value: Callable[[str], str]) -> str:
    """Ask with a proposal that comes from a log's name or a model file, and must not steer the terminal."""
    from ddpclassify.report.words import clean

    shown = f"{text} [{clean(proposed)}]" if proposed else text
    answer: str = click.prompt(shown, default=proposed, show_default=False, value_proc=value)
    return answer


def _category(text: str) -> str:
    """Take a category, also one of the house's own; one that is nearly a known one is a slip."""
    from difflib import get_close_matches

    from ddpclassify.taxonomy import names

    text = text.strip()
    if not re.fullmatch(r"\w[\w.-]*", text):
        raise click.UsageError(f"one word: {', '.join(names())}, or one of your own")
    near = get_close_matches(text, names(), 1, cutoff=0.8)
    if near and text not in names():
        raise click.UsageError(f"{text!r} is not known; did you mean {near[0]!r}?")
    if text == "unknown":
        raise click.UsageError("name a category; one of your own may be new")
    return text


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in str(text).split(",")]
    if not all(part.isdecimal() for part in parts):
        raise click.UsageError("give rank numbers, like 0,3")
    return sorted(map(int, parts))
