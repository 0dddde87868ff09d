"""The summary in Prometheus' text form, for the node exporter's textfile collector."""

from __future__ import annotations

from typing import Any

__all__ = ["exposition"]

_HOSTS = 100
"""Series by host: a label with more values would burden the server."""


def exposition(found: dict[str, Any]) -> str:
    """Return the metrics; all are gauges, since a log that changed may leave its category.

    See Also
    --------
    https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
    """
    categories = [({"category": row["category"]}, row["logs"]) for row in found["categories"]]
    nodes = found["nodes"][:_HOSTS]
    metrics: tuple[tuple[str, str, list[tuple[dict[str, str], int]]], ...] = (
        ("logs", "Logs by category of failure.", categories),
        ("unreadable_logs", "Logs that could not be read.", [({}, found["unreadable"])]),
        ("failures", "Failed jobs by whether a restart helps.", [({"retry": k}, n) for k, n in found["retry"].items()]),
        ("issues", "Distinct failures.", [({}, len(found["issues"]))]),
        ("new_issues", "Distinct failures first seen of late.", [({}, sum(i["new"] for i in found["issues"]))]),
        ("culprit_jobs", "Jobs that a host made fail.", [({"host": n["host"]}, n["culprit_in"]) for n in nodes]),
        ("bad_node", "1 where chance does not explain it.", [({"host": n["host"]}, int(n["bad"])) for n in nodes]),
    )
    lines = []
    for name, meaning, samples in metrics:
        lines += [f"# HELP ddpclassify_{name} {meaning}", f"# TYPE ddpclassify_{name} gauge"]
        lines += [f"ddpclassify_{name}{_labels(labels)} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    r"""Return a label's value as it must stand between quotes.

    >>> print(_escaped('a"b\\c'))
    a\"b\\c
    """
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
