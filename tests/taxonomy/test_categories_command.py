"""``ddpclassify categories``."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from ddpclassify import taxonomy
from ddpclassify.cli.categories import categories


def run(*arguments: str, color: bool = False) -> Result:
    return CliRunner().invoke(categories, list(arguments), color=color)


def test_all_of_them() -> None:
    result = run()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["name", "origin", "retry"]
    assert [line.split()[0] for line in lines[1::2]] == list(taxonomy.names())
    assert "    A GPU had no memory left for an allocation." in lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", [*taxonomy.names(), "unknown"])
def test_one_of_them(name: str) -> None:
    result = run(name)
    assert result.exit_code == 0
    category = taxonomy.load(name)
    lines = result.stdout.splitlines()
    assert lines[0] == f"{name}: {category.title}"
    assert lines[1] == f"origin: {category.origin}   retry: {category.retry}"
    assert max(map(len, lines)) <= 80
    assert not any(line != line.rstrip() for line in lines)
    # Nothing of the file is lost on the way to the screen.
    shown = " ".join(result.stdout.split())
    for text in (category.meaning, category.first_check, *category.steps, *(each.title for each in category.reasons)):
        assert text in shown
    for heading in ("First check", "What to do", "What the log says, for example", "Evidence for next time"):
        assert heading in lines


def test_json() -> None:
    rows = [json.loads(line) for line in run("--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == list(taxonomy.names())
    (row,) = (json.loads(line) for line in run("storage_error", "--json").stdout.splitlines())
    assert row in rows
    assert row["schema"] == "ddpclassify.category/1"
    assert row["reasons"][0]["id"] == "disk_full"
    assert row["reasons"][0]["retry"] == "no"
    assert row["neighbours"][0].keys() == {"category", "how"}


def test_unknown_name() -> None:
    command = [sys.executable, "-m", "ddpclassify", "categories", "cuda_omm"]  # older clicks' runner mixes the streams
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "there is no category 'cuda_omm'; did you mean 'cuda_oom'?" in result.stderr
    assert "Traceback" not in result.stderr


def test_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m" in run("cuda_oom", color=True).output
    assert "\x1b" not in run("cuda_oom").output
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("cuda_oom", color=True).output


def test_completion() -> None:
    group = click.Group("ddpclassify", commands={"categories": categories})
    found = ShellComplete(group, {}, "ddpclassify", "_COMPLETE").get_completions(["categories"], "cuda")
    assert [item.value for item in found] == ["cuda_oom", "cuda_error"]
