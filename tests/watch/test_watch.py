"""`ddpclassify watch` beside jobs that grow their logs, as people and schedulers run it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CASE = Path(__file__).parent.parent / "cases" / "oom-one-of-eight-then-watchdogs.log"
FAST = ("--settle", "0.3", "--interval", "0.05", "--timeout", "30")


def watch(log: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ddpclassify", "watch", str(log), *FAST, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def news(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    row: dict[str, object] = json.loads(process.stdout.readline())
    return row


def test_it_waits_then_speaks_once_and_again_when_the_diagnosis_changes(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    lines = CASE.read_text().splitlines(keepends=True)
    with watch(log, "--json") as process:
        append(log, "".join(lines[:18]))
        time.sleep(0.5)  # nothing to say of a traceback's begin
        append(log, "".join(lines[18:]))
        first = news(process)
        assert (first["schema"], first["event"]) == ("ddpclassify.watch/1", "failure")
        assert first["diagnosis"]["category"] == "cuda_oom"  # type: ignore[index]
        time.sleep(0.5)
        append(log, "".join(f"epoch 1 step {n} loss 0.5\n" for n in range(300, 900)) + "Training complete\n")
        assert news(process)["event"] in ("recovered", "changed")
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130


def test_text_hook_and_exit_status(tmp_path: Path) -> None:
    log = tmp_path / "$(touch owned).log"
    append(log, CASE.read_text())
    hook = f'echo "$DDPCLASSIFY_EVENT $DDPCLASSIFY_CATEGORY $DDPCLASSIFY_RANKS"; cat > "{tmp_path}/row"; exit 3'
    with watch(log, "--once", "--exec", hook) as process:
        out, err = process.communicate()
    assert process.returncode == 10
    assert "cuda_oom" in out
    assert "failure cuda_oom 5" in err
    assert "status 3; the watch goes on" in err
    assert json.loads((tmp_path / "row").read_text())["event"] == "failure"
    assert not (tmp_path / "owned").exists()


def test_a_hang_is_told_from_no_news(tmp_path: Path) -> None:
    """Ranks 0 to 3 write; rank 2 stops while the others go on; then all stop."""
    log = tmp_path / "job.log"
    append(log, "".join(f"[rank{r}]: step {n} loss 0.5\n" for n in range(30) for r in range(4)))
    with watch(log, "--json", "--hang", "1") as process:
        step, end = 30, time.monotonic() + 20
        row: dict[str, object] = {}
        while not row and time.monotonic() < end:
            append(log, "".join(f"[rank{r}]: step {step} loss 0.5\n" for r in (0, 1, 3)))
            step += 1
            time.sleep(0.1)
            if step > 60:
                row = news(process)
        assert (row["event"], row["silent_ranks"], row["active_ranks"]) == ("hang", [2], [0, 1, 3])
        assert row["last_lines"] == [{"rank": 2, "text": "[rank2]: step 29 loss 0.5"}]
        assert news(process)["event"] == "quiet"  # we write no more
        append(log, "".join(f"[rank{r}]: step {step} loss 0.5\n" for r in range(4)))
        assert news(process)["event"] == "resumed"
        process.terminate()


def test_a_hang_fits_a_terminal_and_lets_no_escape_through() -> None:
    from ddpclassify.cli.watch import _text
    from ddpclassify.watch import News
    from ddpclassify.watch.silence import Hang

    hang = Hang(tuple(range(0, 4096, 2)), tuple(range(1, 4096, 2)), 301.5)
    text = _text(News("hang", hang=hang, seconds=301.5, last=((0, "step 1 \x1b[2J" + "x " * 300),)))
    assert all(line.isprintable() and len(line) <= 80 for line in text.split("\n"))
    assert "(2048 in all) for 302 s" in text


def test_what_cannot_be_watched_is_said() -> None:
    done = subprocess.run([sys.executable, "-m", "ddpclassify", "watch", "-"], capture_output=True, check=False)
    assert done.returncode == 2
    assert b"ddpclassify run" in done.stderr


@pytest.mark.gloo
@pytest.mark.parametrize("failing_job", ["torchrun", "spawn", "mpirun"], indirect=True)
def test_real_jobs_that_fail_under_three_launchers(failing_job: list[str], tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    # The parent of spawned processes speaks first, and of its clean-up: the failure itself comes seconds later.
    settle = "4" if "--spawn" in failing_job else "1"
    with watch(log, "--once", "--json", "--settle", settle, "--timeout", "90") as process, log.open("wb") as output:
        subprocess.run(failing_job, stdout=output, stderr=subprocess.STDOUT, check=False)
        row = news(process)
    assert process.returncode == 10
    assert row["event"] == "failure"
    assert row["diagnosis"]["culprit_ranks"] == [1]  # type: ignore[index]
