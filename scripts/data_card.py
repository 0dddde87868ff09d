"""Prints the data card of ``data/`` from its corpora."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ddpclassify.corpus import Labelled, load_corpus

DATA = Path(__file__).parent.parent / "data"
CORPORA = ("executed", "rendered")
TABLES = {
    "Categories": "category",
    "Scopes": "scope",
    "Launchers": "launcher",
    "Launcher forms of the executed jobs": "launcher_form",
    "Workloads of the executed jobs": "workload",
    "Damage": "damage",
    "World sizes": "world_size",
    "PyTorch releases": "torch",
}
HEAD = """\
# Data card

Written by `scripts/data_card.py`; the corpora are made by `scripts/corpus`. `ddpclassify train` and `ddpclassify
benchmark` take the archives as they are.

- **executed**: small gloo jobs that really ran on one machine without GPUs, with a fault injected into the script or
  its surroundings. The log is the job's output; the names of folder, interpreter and host are replaced by invented
  ones. A job whose log did not show its fault is left out. Some faults are raised by the script as the system would
  raise them (a connection reset, a read-only file system): the launchers' and the other ranks' reactions are real.
- **rendered**: logs written from message formats for what needs GPUs, several nodes, networks and other releases of
  PyTorch; no job ran. About a quarter are damaged as people damage logs: cut, grepped, wrapped, mixed.

Both hold invented users, hosts and paths only. `template` names the fault: splits are grouped by it.

Of the executed logs those named `logs/0...` were drawn with seed 11 by an earlier version with fewer faults and
launchers, those named `logs/1...` are of the first 982 jobs of seed 1001, those named `logs/2...` of the 340 jobs of
seed 1002, those named `logs/3...` of those of the 1,700 jobs of seed 2003 with 3, 4 or 6 ranks in which some ranks, not
all, have the fault. Logs whose label `ddpclassify generate --check` found at odds with the log are left out.

Known gaps: no log of a real GPU job; executed jobs are of one PyTorch release and of one machine.
"""


def counts(title: str, keys: Iterable[str], by: dict[str, list[Labelled]], field: str) -> list[str]:
    """A table of one field's values, a column a corpus."""
    tallies = {name: Counter(str(each.row.get(field, "")) for each in logs) for name, logs in by.items()}
    lines = [f"## {title}", "", f"| {field} | " + " | ".join(by) + " |", "| --- |" + " ---: |" * len(by)]
    lines += [f"| {key} | " + " | ".join(str(tallies[name][key]) for name in by) + " |" for key in keys]
    return [*lines, ""]


def crossed(logs: list[Labelled]) -> list[str]:
    """The table of faults by launcher form: a row a category, its templates and its logs a form."""
    forms = sorted({str(each.row["launcher_form"]) for each in logs})
    pairs = Counter((each.category, str(each.row["launcher_form"])) for each in logs)
    templates = {(each.category, str(each.row["template"])) for each in logs}
    kinds = Counter(category for category, _ in templates)
    lines = ["## Executed: faults by launcher form", ""]
    lines += ["| category | templates | " + " | ".join(forms) + " |", "| --- |" + " ---: |" * (len(forms) + 1)]
    lines += [
        f"| {category} | {kinds[category]} | " + " | ".join(str(pairs[category, form] or "") for form in forms) + " |"
        for category in sorted(kinds)
    ]
    return [*lines, ""]


def main() -> None:
    """Print the card."""
    by = {name: load_corpus(DATA / f"{name}.tar.xz") for name in CORPORA}
    lines = [HEAD, "| | " + " | ".join(by) + " |", "| --- |" + " ---: |" * len(by)]
    lines.append("| logs | " + " | ".join(str(len(logs)) for logs in by.values()) + " |")
    lines.append(
        "| fault templates | " + " | ".join(str(len({x.row["template"] for x in logs})) for logs in by.values()) + " |"
    )
    lines.append("")
    for title, field in TABLES.items():
        values = {str(each.row[field]) for logs in by.values() for each in logs if field in each.row}
        keys = sorted(values, key=lambda v: [int(x) if x.isdigit() else x for x in v.split(".")])
        lines += counts(title, keys, by, field)
    lines += crossed(by["executed"])
    print("\n".join(lines).rstrip())


if __name__ == "__main__":
    main()
