"""Prints the model card of ``models/default`` from its `card.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MODEL = Path(__file__).parent.parent / "models" / "default"
HEAD = """\
# Model card: {name} {version}

Written by `scripts/model_card.py` from `card.json`, which `ddpclassify train` writes beside the model.

**What it is.** Five linear models over TF-IDF of a log's folded failures and over structural features: which failure is
the cause, the category, the reason inside it, the scope, the ranks. `model.bin` holds arrays and names, no code
(format {format}, SHA-256 `{sha256}`).

**For.** Logs of failed distributed PyTorch jobs, to tell a person where to look first, or a program whether to restart.
Not for anything that must not err: every answer bears a probability, and below {threshold} none is given.

**Trained on.** {logs} logs ({provenance}), corpus fingerprint `{fingerprint}`, described in the
[data card](../../data/README.md); with {libraries}.

## How good it is

Grouped cross-validation on that corpus: no fault template is on both sides, so each figure is of faults never seen.
`ddpclassify benchmark CORPUS` measures it on other logs.
"""
LIMITS = """\
## Limits

- No log of a real GPU job was trained on; what needs GPUs, nodes or networks is rendered from documented messages.
- The shares of categories in the corpus are even, those of real failures are not.
- The probabilities are calibrated on the corpus. On logs unlike it they may be off.
- Messages are English.
"""
FIGURES = {
    "category_accuracy": "category right",
    "scope_accuracy": "scope right (some ranks, all, the launcher, nobody)",
    "cause_first": "likeliest cause is the labelled one",
    "evidence_found": "labelled evidence is among the failures found",
}


def percent(value: float) -> str:
    """Return a share for a reader."""
    return f"{100 * value:.1f} %"


def figures(held: dict[str, Any]) -> list[str]:
    """Return the tables of held-out figures."""
    lines = [f"{held['logs']} logs, {held['groups']} templates.", "", "| | held out |", "| --- | ---: |"]
    lines += [f"| {told} | {percent(held[name])} |" for name, told in FIGURES.items() if name in held]
    calibration = held["calibration"]
    error = percent(calibration["expected_calibration_error"])
    lines += ["", f"How sure it says it is, and how often that is right (expected calibration error {error}):", ""]
    lines += ["| sure from | logs | mean sureness | right |", "| ---: | ---: | ---: | ---: |"]
    for row in calibration["bins"]:
        lines.append(f"| {row['from']} | {row['logs']} | {percent(row['confidence'])} | {percent(row['right'])} |")
    lines += ["", "| answers at least so sure | share of logs | wrong |", "| ---: | ---: | ---: |"]
    for row in calibration["confident"]:
        lines.append(f"| {row['from']} | {percent(row['share'])} | {percent(row['wrong'])} |")
    return [*lines, ""]


def text(card: dict[str, Any]) -> str:
    """Return the card as Markdown."""
    corpus = card["corpus"]
    head = HEAD.format(
        **{key: card[key] for key in ("name", "version", "format", "sha256", "threshold")},
        logs=corpus["logs"],
        fingerprint=corpus["fingerprint"],
        provenance=", ".join(f"{count} {kind}" for kind, count in corpus["provenance"].items()),
        libraries=", ".join(f"{name} {version}" for name, version in card["libraries"].items()),
    )
    lines = [head, *figures(card["held_out"])]
    lines += ["## Categories", "", "| category | logs |", "| --- | ---: |"]
    lines += [f"| {name} | {count} |" for name, count in corpus["categories"].items()]
    return "\n".join([*lines, "", LIMITS])


if __name__ == "__main__":
    print(text(json.loads((MODEL / "card.json").read_text("utf-8"))), end="")
