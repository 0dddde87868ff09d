"""When the watcher speaks: at a clear failure only, and of what the log says by then. Its clock is ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpclassify.api import load_model
from ddpclassify.watch import Watcher, _ends

TRACEBACK = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/home/u/train.py", line 88, in run\n'
    "[rank{0}]:     loss = step(batch)\n"
    "[rank{0}]: NameError: name 'step' is not defined\n"
)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def steps(start: int, n: int) -> str:
    return "".join(f"[rank{r}]: epoch 1 step {start + i} loss 0.5\n" for i in range(n) for r in range(2))


def events(watcher: Watcher, clock: Clock, log: Path, texts: list[str]) -> list[str]:
    """Write a text a second, and return what the watcher says."""
    said = []
    for text in texts:
        with log.open("a") as file:
            file.write(text)
        said += [news.event for news in watcher.look()]
        clock.now += 1
    return said


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watcher(tmp_path: Path, clock: Clock) -> Watcher:
    return Watcher(tmp_path / "job.log", load_model(), settle=5, hang=100, clock=clock)


def test_a_healthy_job_is_not_spoken_of(watcher: Watcher, clock: Clock) -> None:
    assert events(watcher, clock, watcher.follower.log, [steps(10 * i, 10) for i in range(30)]) == []


def test_a_failure_is_spoken_of_once_after_it_has_settled(watcher: Watcher, clock: Clock) -> None:
    log = watcher.follower.log
    failing = [steps(0, 30), TRACEBACK.format(0), "", TRACEBACK.format(1)]
    assert events(watcher, clock, log, failing) == []
    assert events(watcher, clock, log, [""] * 60) == ["failure"]


def test_an_error_after_which_the_job_goes_on_is_not_spoken_of(watcher: Watcher, clock: Clock) -> None:
    going_on = [steps(0, 30), TRACEBACK.format(0), *(steps(30 + 40 * i, 40) for i in range(30))]
    assert events(watcher, clock, watcher.follower.log, going_on) == []


def test_a_job_that_ends_well_after_all_has_recovered(watcher: Watcher, clock: Clock) -> None:
    log = watcher.follower.log
    dead = [steps(0, 30), TRACEBACK.format(0) + TRACEBACK.format(1), *[""] * 10]
    assert events(watcher, clock, log, dead) == ["failure"]
    ends_well = [*(steps(40 * i, 40) for i in range(20)), "Training complete\n", *[""] * 10]
    assert events(watcher, clock, log, ends_well) == ["recovered"]


def test_a_job_that_trains_on_without_an_end_mark_is_not_failed_for_good(watcher: Watcher, clock: Clock) -> None:
    """Whatever the diagnosis of such a log says, the steps show that it is over."""
    log = watcher.follower.log
    dead = [steps(0, 30), TRACEBACK.format(0) + TRACEBACK.format(1), *[""] * 10]
    assert events(watcher, clock, log, dead) == ["failure"]
    assert events(watcher, clock, log, [steps(30, 1), *[""] * 20]) == []  # a step or two say nothing
    going_on = [steps(40 + i, 1) for i in range(20)]
    assert events(watcher, clock, log, going_on) == ["recovered"]
    events(watcher, clock, log, [TRACEBACK.format(1), *[""] * 5])
    assert watcher.course.further == 0  # it failed again


def test_survivors_that_go_on_do_not_make_a_dead_rank_live(watcher: Watcher, clock: Clock) -> None:
    log = watcher.follower.log
    survivors = ["".join(f"[rank0]: step {40 + i} loss 0.5\n" for _ in range(2)) for i in range(20)]
    assert events(watcher, clock, log, [steps(0, 30), TRACEBACK.format(1), *survivors])[-1:] != ["recovered"]


def test_silence_of_all_is_said_once_as_no_news(watcher: Watcher, clock: Clock) -> None:
    assert events(watcher, clock, watcher.follower.log, [steps(0, 30), *[""] * 300]) == ["quiet"]


def test_a_long_log_is_heard_at_its_end_only() -> None:
    old, new = b"old\n" * (1 << 18), b"new\n" * 10
    ends = dict(_ends([(0, old), (1, b"other\n"), (0, new)]))
    assert ends[1] == b"other\n"
    assert ends[0].endswith(b"old\n" + new)
    assert len(ends[0]) == 1 << 19
