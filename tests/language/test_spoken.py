"""The commands in Chinese, as they are started: by option, by the environment, and never in what programs read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ddpclassify import language, load_model, taxonomy
from ddpclassify.language import from_environment
from ddpclassify.report import text_report
from ddpclassify.report.words import columns, wrap

CASES = Path(__file__).parent.parent / "cases"
OOM = CASES / "oom-one-of-eight-then-watchdogs.log"


def ddpclassify(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("LC_ALL", "LC_MESSAGES", "LANG")}
    return subprocess.run(
        [sys.executable, "-m", "ddpclassify", *args],
        capture_output=True,
        env={**clean, "PYTHONUTF8": "1", **env},
        encoding="utf-8",
        timeout=60,
    )


@pytest.fixture
def chinese() -> object:
    language.use("zh")
    yield
    language.use("en")


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "zh_CN"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "fr_FR.UTF-8"}, "en"),
        ({"LANG": ""}, "en"),
        ({}, "en"),
    ],
)
def test_the_environment_is_read_as_posix_has_it(environment: dict[str, str], wanted: str) -> None:
    assert from_environment(environment) == wanted


def test_option_before_and_behind_the_command_and_environment_are_one() -> None:
    behind = ddpclassify("predict", "--lang", "zh", str(OOM)).stdout
    assert "  谁       rank 5（共 8 个）最先失败" in behind
    assert ddpclassify("--lang", "zh", "predict", str(OOM)).stdout == behind
    assert ddpclassify("predict", str(OOM), LANG="zh_CN.UTF-8").stdout == behind
    english = ddpclassify("predict", str(OOM)).stdout
    assert "rank 5 of 8 failed first" in english
    assert ddpclassify("predict", "--lang", "en", str(OOM), LANG="zh_CN.UTF-8").stdout == english
    assert ddpclassify("predict", "--lang", "xx", str(OOM)).returncode == 2


def test_json_keeps_its_names_and_advises_in_the_language() -> None:
    english, chinese = (
        json.loads(ddpclassify("predict", "--json", "--lang", x, str(OOM)).stdout) for x in ("en", "zh")
    )
    assert chinese.pop("advice") == {
        "first_check": taxonomy_zh("cuda_oom").first_check,
        "steps": list(taxonomy_zh("cuda_oom").steps),
    }
    assert english.pop("advice")["first_check"].startswith("Read the numbers")
    assert (chinese.pop("missing") == []) == (english.pop("missing") == [])
    assert chinese == english


def taxonomy_zh(name: str) -> taxonomy.Category:
    language.use("zh")
    try:
        return taxonomy.load(name)
    finally:
        language.use("en")


@pytest.mark.parametrize("path", sorted(CASES.glob("*.log")), ids=lambda p: p.stem)
@pytest.mark.usefixtures("chinese")
def test_the_answer_fits_a_terminal_in_chinese(path: Path) -> None:
    folded, diagnosis = load_model().explain(path)
    for verbose in (False, True):
        lines = text_report(diagnosis, verbose, folded=folded).splitlines()
        assert max(map(columns, lines[verbose:])) <= 80  # a verbose headline has the whole path
        texts = [line[2:] for line in lines if line.startswith("  ")]
        assert all(columns(line) - columns(line.lstrip()) in (0, 9) or line[0] != " " for line in texts)
        assert not any(re.match("  [，。；：！？、）]", line) for line in lines)


@pytest.mark.parametrize("name", [*taxonomy.names(), "unknown"])
def test_every_category_fits_a_terminal_in_chinese(name: str) -> None:
    from click.testing import CliRunner

    from ddpclassify.cli import cli

    shown = CliRunner().invoke(cli, ["categories", name, "--lang", "zh"]).output
    language.use("en")
    lines = shown.splitlines()
    # A command that is longer than a line stands out, as it does in English.
    assert all(columns(line) <= 80 or len(line.split()) <= 2 for line in lines)
    assert not any(re.match(" *[，。；：！？、）]", line) for line in lines)
    assert taxonomy_zh(name).title in lines[0]


def test_run_watch_and_report_speak_it_too(tmp_path: Path) -> None:
    done = ddpclassify("run", "--lang", "zh", "--logs", str(tmp_path / "logs"), "--", "sh", "-c", f"cat {OOM}; exit 3")
    assert done.returncode == 3
    assert done.stdout == OOM.read_text()
    for words in ("日志在 ", "退出状态 3", "最先失败", "GPU 显存不足"):
        assert words in done.stderr
    options = ["--once", "--settle", "0.2", "--interval", "0.05", "--timeout", "30"]
    assert "最先失败" in ddpclassify("watch", str(OOM), *options, LANG="zh_CN.UTF-8").stdout
    page = tmp_path / "page.html"
    assert "已写入" in ddpclassify("report", "--lang", "zh", str(OOM), "-o", str(page)).stderr
    html = page.read_text(encoding="utf-8")
    assert '<html lang="zh-Hans">' in html
    assert "失败如何扩散" in html
    assert "How it spread" not in html


def test_lines_break_where_chinese_may_break() -> None:
    text = "先看 `nvidia-smi`（每张卡），再看“碎片”：保留了很多却未分配。" * 4
    for width in range(16, 60):
        lines = wrap(text, width)
        assert max(map(columns, lines)) <= width
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert not any(re.match("[，。：）”]", line) or re.search("[（“]$", line) for line in lines)


def test_help_and_no_color_are_everywhere() -> None:
    from ddpclassify.cli import SECTIONS

    for command in (name for section in SECTIONS.values() for name in section):
        done = ddpclassify(command, "-h")
        assert done.returncode == 0, command
        assert "--no-color" in done.stdout
