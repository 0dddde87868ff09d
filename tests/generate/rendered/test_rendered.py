"""The engine of the rendered corpus: labels point at what they should, whatever framing and damage did."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ddpclassify.generate.rendered import render
from ddpclassify.generate.rendered.exceptions import Frame, caret_line, load_rows, traceback_text
from ddpclassify.generate.rendered.framing import FRAMINGS
from ddpclassify.generate.rendered.framing.base import LOGGERS, Clock, Launcher, Writer
from ddpclassify.generate.rendered.framing.labels import who_failed
from ddpclassify.generate.rendered.framing.rich import boxed
from ddpclassify.generate.rendered.framing.srun import task_ranges
from ddpclassify.generate.rendered.job import LAUNCHERS, draw_job, start_of
from ddpclassify.generate.rendered.render import Rendered, Template, render_log
from ddpclassify.generate.rendered.script import Exit, Fault, Job, Say, Script
from ddpclassify.generate.rendered.stock.words import Fill

ROWS = Path(__file__).parent / "rows"
MARK = "the_cause_itself"


def marked(rng: random.Random, job: Job) -> Script:
    """One rank raises; its evidence is a line that no other part of a log can hold."""
    rank, t = rng.randrange(job.world_size), 200.0
    frames = [Frame("{user}/train.py", "<module>", "main()"), Frame("{user}/train.py", "main", "step(batch)")]
    text = traceback_text(frames, f"ValueError: {MARK}", Fill(rng, job), rank)
    say = Say(rank, t, text, "traceback", evidence=(text.count("\n"),))
    return Script(
        "code_error",
        "wrong_value",
        "ranks",
        (rank,),
        [say],
        [Exit(rank, t + 0.1, 1)],
        fails_at=t,
        no_culprit_mark="unknown",
    )


def killed(rng: random.Random, job: Job) -> Script:
    """One rank is killed without a word; only the launcher can tell."""
    rank = rng.randrange(job.world_size)
    return Script("host_oom", "killed_unconfirmed", "ranks", (rank,), [], [Exit(rank, 200.0, -9)], fails_at=200.0,
                  table_is_evidence=True, no_culprit_mark="unknown")  # fmt: skip


def everyone(rng: random.Random, job: Job) -> Script:
    """All ranks raise the same at nearly the same time."""
    texts = f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: {MARK}'
    says = [Say(rank, 200 + rng.uniform(0, 0.002), texts, "traceback", evidence=(3,)) for rank in range(job.world_size)]
    ends = [Exit(rank, 200.1, 1) for rank in range(job.world_size)]
    return Script("code_error", "wrong_value", "all", (), says, ends, fails_at=200.0)


def logs(fault: Fault, launcher: str, count: int = 12, **needs: list[str]) -> Iterator[Rendered]:
    template = Template("test", "code_error", fault, {"launcher": [launcher], **needs})
    for number in range(count):
        rendered = render_log(random.Random(f"{launcher}-{number}"), template)
        if rendered is not None:
            yield rendered


def evidence(rendered: Rendered) -> list[str]:
    lines = rendered.text.split("\n")
    return [lines[number - 1] for number in rendered.label["evidence_lines"]]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_evidence_line_holds_the_cause(launcher: str) -> None:
    seen = 0
    for fault in (marked, everyone):
        for rendered in logs(fault, launcher):
            seen += 1
            if rendered.label["damage"] != "wrapped":
                assert all(MARK in line for line in evidence(rendered))
            assert rendered.label["evidence_lines"]
    assert seen > 12


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_lines_with_the_cause_are_all_evidence(launcher: str) -> None:
    for rendered in logs(marked, launcher):
        holding = [number for number, line in enumerate(rendered.text.split("\n"), 1) if MARK in line]
        assert rendered.label["damage"] == "wrapped" or holding == rendered.label["evidence_lines"]


@pytest.mark.parametrize("launcher", sorted(set(LAUNCHERS) - {"shell"}))
def test_a_silent_kill_is_proved_by_the_launcher(launcher: str) -> None:
    proof = re.compile(r"-9\b|SIGKILL|Killed|signal 9|died unexpectedly|actor is dead|137")
    for rendered in logs(killed, launcher):
        if rendered.label["damage"] not in ("wrapped", "shipper"):
            assert all(proof.search(line) for line in evidence(rendered))


def test_legacy_launcher_and_deepspeed_blame_nobody() -> None:
    for launcher in ("legacy-launch", "deepspeed"):
        for rendered in logs(killed, launcher, torch_max=["1.8"], world_size=["2", "4", "8"]):
            assert rendered.label["scope"] == "unknown"


def test_one_process_is_all() -> None:
    assert {rendered.label["scope"] for rendered in logs(marked, "torchrun", world_size=["1"])} == {"all"}


def test_table_names_the_killed_rank() -> None:
    for rendered in logs(killed, "torchrun", torch_min=["2.4"], world_size=["4"], nodes=["1"]):
        if rendered.label["damage"] == "none":
            assert rendered.label["scope"] == "ranks"
            (rank,) = rendered.label["culprit_ranks"]
            assert f"rank      : {rank} (local_rank: {rank})\n  exitcode  : -9 " in rendered.text


@pytest.mark.parametrize("name", sorted(load_rows(ROWS)))
def test_rows_render(name: str) -> None:
    category, fault, needs = load_rows(ROWS)[name]
    for number in range(10):
        rendered = render_log(random.Random(f"{name}{number}"), Template(name, category, fault, needs))
        if rendered is None:
            continue
        assert rendered.label["category"] == category
        assert all(line.strip() for line in evidence(rendered))


def test_chain_is_proved_by_its_first_exception() -> None:
    category, fault, needs = load_rows(ROWS)["code-test-chain"]
    for number in range(20):
        rendered = render_log(random.Random(number), Template("x", category, fault, needs))
        if rendered and rendered.label["damage"] == "none":
            assert all("KeyError" in line for line in evidence(rendered))


def test_loader_worker_is_proved_inside_the_message() -> None:
    category, fault, needs = load_rows(ROWS)["data-test-worker"]
    for number in range(20):
        rendered = render_log(random.Random(number), Template("x", category, fault, needs))
        if rendered and rendered.label["damage"] == "none":
            assert all("[Errno 2] No such file" in line for line in evidence(rendered))


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    for name, workers in (("a", 1), ("b", 2)):
        render.render_corpus(tmp_path / name, 24, 7, categories=["no_failure", "preempted"], workers=workers)
    first, second = (
        {path.relative_to(tmp_path / name): path.read_bytes() for path in sorted((tmp_path / name).rglob("*.*"))}
        for name in ("a", "b")
    )
    assert first == second


def test_labels_fit_their_logs(tmp_path: Path) -> None:
    render.render_corpus(tmp_path, 50, 3)
    rows = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows
    for row in rows:
        lines = (tmp_path / row["log"]).read_bytes().decode().split("\n")
        assert all(0 < number <= len(lines) for number in row["evidence_lines"])
        assert bool(row["culprit_ranks"]) == (row["scope"] == "ranks")
        assert (row["category"] == "no_failure") == (not row["evidence_lines"]) == (row["scope"] == "none")
        assert row["culprit_ranks"] == sorted(row["culprit_ranks"])


def test_every_launcher_has_a_framing() -> None:
    assert set(FRAMINGS) == set(LAUNCHERS)


@pytest.mark.parametrize(
    ("source", "python", "marks"),
    [
        ("main()", (3, 11), ""),
        ("main()", (3, 13), "~~~~^^"),
        ("main()", (3, 10), ""),
        ("out = model(batch)", (3, 11), "      ^^^^^^^^^^^^"),
        ("return forward_call(*args, **kwargs)", (3, 13), "       ~~~~~~~~~~~~^^^^^^^^^^^^^^^^^"),
        ("raise exception", (3, 12), ""),
    ],
)
def test_carets(source: str, python: tuple[int, int], marks: str) -> None:
    assert caret_line(source, python) == marks


def test_prefix_of_an_uncaught_exception_follows_the_release() -> None:
    job = draw_job(random.Random(1), {"launcher": ["torchrun"], "world_size": ["4"], "nodes": ["1"]})
    assert job is not None
    say = Say(2, 1.0, "Traceback (most recent call last):\n\nValueError: x", "traceback", evidence=(2,))
    for torch, head in (((2, 2), ""), ((2, 3), "[rank2]: ")):
        own = replace(job, torch=torch)
        clock = Clock(start_of(own))
        writer = Writer(random.Random(1), own, clock, Launcher(random.Random(1), own, clock), LOGGERS[0], True)
        writer.boxes = False
        lines = writer.lines([say], [])
        assert [line.text for line in lines] == [
            f"{head}Traceback (most recent call last):",
            "",
            f"{head}ValueError: x",
        ]
        assert [line.evidence for line in lines] == [False, False, True]
        assert who_failed(Script("c", "r", "ranks", (2,), no_culprit_mark="unknown"), own, writer.launcher, lines) == (
            ("ranks", (2,)) if head else ("unknown", ())
        )


def test_progress_bar_keeps_its_line_open() -> None:
    job = draw_job(random.Random(2), {"launcher": ["shell"], "world_size": ["1"]})
    assert job is not None
    clock = Clock(start_of(job))
    writer = Writer(random.Random(1), job, clock, Launcher(random.Random(1), job, clock), LOGGERS[0], True)
    says = [Say(0, 1, "10%", "bar"), Say(0, 2, "20%", "bar"), Say(0, 3, "boom", evidence=(0,)), Say(0, 4, "end")]
    lines = writer.lines(says, [])
    assert [(line.text, line.evidence) for line in lines] == [("\r10%\r20%boom", True), ("end", False)]


def test_box_keeps_the_mark() -> None:
    say = Say(
        0, 1, 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\nValueError: x', evidence=(3,)
    )
    box = boxed(say)
    assert [box.text.split("\n")[number] for number in box.evidence] == ["ValueError: x"]


def test_task_ranges() -> None:
    assert task_ranges([3, 0, 1, 2, 5]) == "0-3,5"


def test_unknown_needs_are_met_or_refused() -> None:
    job = draw_job(random.Random(3), {"launcher": ["srun"], "torch_min": ["2.10"], "world_size": ["5"]})
    assert job is not None
    assert (job.launcher, job.world_size) == ("srun", 5)
    assert job.torch >= (2, 10)
    assert draw_job(random.Random(3), {"launcher": ["mp.spawn"], "nodes": ["4"]}) is None
