"""The metrics, as Prometheus' own parser reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet_rows import row

from ddpclassify.fleet.metrics import exposition
from ddpclassify.fleet.store import Store
from ddpclassify.fleet.summary import summarise

HOST = 'a"b\\n\\\nc'  # every character that the format escapes, and one that looks escaped


def test_prometheus_reads_what_was_counted(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    rows = [row(f"{n}.log", "network_error", "communication", host=HOST, hosts=[HOST, "node2"]) for n in range(5)]
    rows += [
        row("o.log", "no_failure", "none"),
        row("p.log", 'own "kind"', "resource", issue="v1-1", title="x", why={}),
    ]
    with Store(tmp_path, writer=True) as store:
        store.add(rows)
        text = exposition(summarise(store.db))
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert {family.type for family in families.values()} == {"gauge"}
    assert all(family.documentation for family in families.values())
    values = {
        (name, *sample.labels.items()): sample.value for name, family in families.items() for sample in family.samples
    }
    assert values == {
        ("ddpclassify_logs", ("category", "network_error")): 5,
        ("ddpclassify_logs", ("category", "no_failure")): 1,
        ("ddpclassify_logs", ("category", 'own "kind"')): 1,
        ("ddpclassify_unreadable_logs",): 0,
        ("ddpclassify_failures", ("retry", "no")): 6,
        ("ddpclassify_issues",): 1,
        ("ddpclassify_new_issues",): 1,
        ("ddpclassify_culprit_jobs", ("host", HOST)): 5,
        ("ddpclassify_bad_node", ("host", HOST)): 0,
    }


def test_the_format_ends_every_line_and_says_help_and_type_once(tmp_path: Path) -> None:
    with Store(tmp_path, writer=True) as store:
        store.add([row("a.log", "cuda_oom", "resource")])
        lines = exposition(summarise(store.db)).split("\n")
    assert lines.pop() == ""
    heads = [line.split()[:3] for line in lines if line.startswith("#")]
    assert len(heads) == len({tuple(head) for head in heads}) == 2 * len({head[2] for head in heads})
