"""The installed command, as people and scripts use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASE = Path(__file__).parent.parent / "cases" / "oom-one-of-eight-then-watchdogs.log"
FIELDS = {
    "schema", "source", "lines", "bytes", "category", "confidence", "candidates", "reason", "origin", "retry", "scope",
    "culprit_ranks", "culprit_confidence", "culprit_host", "world_size", "evidence", "failures", "advice", "model",
}  # fmt: skip


def run(*args: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "ddpclassify", *args], input=data, capture_output=True, check=False)


def test_json_is_one_object_a_log_in_order(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing.log")
    done = run("predict", "--json", str(CASE), missing, str(CASE))
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1
    assert set(first) >= FIELDS
    assert (first["category"], first["culprit_ranks"], first["world_size"]) == ("cuda_oom", [5], 8)
    assert first["evidence"][0]["line"] == 22
    assert second["source"] == missing
    assert "No such file" in second["error"]
    assert first == third
    assert b"Traceback" not in done.stderr


def test_text_fits_a_terminal_and_reads_from_the_top() -> None:
    done = run("predict", str(CASE))
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert "cuda_oom" in lines[0]
    assert max(map(len, lines)) <= max(80, len(lines[0]))
    words = "\n".join(lines[1:])
    assert words.index("who") < words.index("proof") < words.index("then") < words.index("check") < words.index("do ")


def test_standard_input() -> None:
    done = run("predict", "--json", data=CASE.read_bytes())
    assert json.loads(done.stdout)["category"] == "cuda_oom"


def test_exit_code_for_scripts(tmp_path: Path) -> None:
    healthy = tmp_path / "ok.log"
    healthy.write_text(
        "".join(f"epoch 0 step {i} loss {3 - i / 100:.3f}\n" for i in range(200)) + "Training complete\n"
    )
    assert run("predict", "--exit-code", str(CASE)).returncode == 10
    assert run("predict", "--exit-code", str(healthy)).returncode == 0


def test_wrong_usage_is_one_line() -> None:
    done = run("predikt", str(CASE))
    assert done.returncode == 2
    assert b"did you mean 'predict'" in done.stderr


def test_escapes_of_the_log_never_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil.log"
    path.write_bytes(
        b'\x1b]0;owned\x07Traceback (most recent call last):\n  File "t.py", line 1, in f\nValueError: \x1b[2J\xe2\x80\xaeboo\x9b31m\n'
    )
    assert not set(run("predict", str(path)).stdout) & {0x1B, 0x07, 0x9B}
    assert "\u202e" not in run("predict", str(path)).stdout.decode()


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder of jobs: forty files, and one job with a file a rank."""
    for number in range(40):
        (tmp_path / f"job{number}.log").write_bytes(CASE.read_bytes() + b"later\n" * number)
    (tmp_path / "job40").mkdir()
    (tmp_path / "job40" / "rank0.log").write_bytes(b"ValueError: x\n")
    return tmp_path


def test_each_log_of_a_folder_in_order_whatever_the_number_of_processes(many: Path) -> None:
    done = run("predict", "--json", "--each", str(many), "--jobs", "2")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["source"] for row in rows] == [str(many / f"job{n}.log") for n in range(40)] + [str(many / "job40")]
    assert [row["lines"] for row in rows[:40]] == [rows[0]["lines"] + n for n in range(40)]
    assert done.stderr == b""
    assert run("predict", "--json", "--each", str(many), "--jobs", "1").stdout == done.stdout


def test_a_list_of_logs_on_standard_input(many: Path) -> None:
    names = [str(many / "job3.log"), str(many / "missing.log"), str(many / "job40")]
    done = run("predict", "--json", "--each", "-", data="\n".join(names).encode())
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["source"] for row in rows] == names
    assert (done.returncode, "error" in rows[1]) == (1, True)


def test_each_of_nothing_is_one_line(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        done = run("predict", "--each", str(place))
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert run("predict", "--each", "-", "-", data=b"").returncode == 2


def test_a_log_that_cannot_be_read_does_not_stop_the_others(many: Path) -> None:
    (many / "job20.log").unlink()
    (many / "job20.log").symlink_to(many / "nowhere")
    names = [str(many / f"job{n}.log") for n in range(40)]
    done = run("predict", "--json", "--jobs", "2", *names)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["source"] for row in rows] == names
    assert [n for n, row in enumerate(rows) if "error" in row] == [20]
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize(
    "command",
    [
        ["predict", str(CASE)],
        ["predict", "--json", str(CASE), str(CASE)],
        ["predict", "-q", "-"],
        ["report", "-o", "-", str(CASE)],
        ["categories"],
        ["generate", "--list"],
        ["predict", "--help"],
    ],
    ids=lambda c: " ".join(c[:1] + [w for w in c if w.startswith("-")]),
)
def test_a_reader_that_is_gone_is_no_mistake(command: list[str]) -> None:
    """The status is that of `grep` and others in the same place."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    line = [sys.executable, "-m", "ddpclassify", *command]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_reader_that_has_seen_enough_ends_it_without_a_word(many: Path) -> None:
    command = [sys.executable, "-m", "ddpclassify", "predict", "-q", "--jobs", "2", "--each", str(many)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stderr is not None
        job.stdout.readline()
        job.stdout.close()
        assert job.stderr.read() == b""
    assert job.returncode == 141


def test_verbose_and_quiet_exclude_each_other() -> None:
    assert run("predict", "-v", "-q", "-", data=b"").returncode == 2


def test_explain_shows_what_spoke_for_the_answer_below_it() -> None:
    plain, asked = run("predict", str(CASE)).stdout, run("predict", "--explain", str(CASE)).stdout
    assert asked.startswith(plain)
    assert asked[len(plain) :].decode().count("  why ") == 4
    (row,) = map(json.loads, run("predict", "--json", "--explain", str(CASE)).stdout.splitlines())
    assert row["explanation"]["rank"]["answer"] == 5
    assert run("predict", "--explain", "-q", "-", data=b"").returncode == 2


def test_a_good_run_that_is_none_is_told_in_one_line(tmp_path: Path) -> None:
    failed, good = tmp_path / "failed.log", tmp_path / "good.log"
    failed.write_bytes(CASE.read_bytes() + b"more\n")
    good.write_text("WARNING: upload failed\nstep 1 loss 0.5\nTraining complete\n")
    itself = run("predict", "-q", "--healthy", str(CASE), str(CASE))
    assert b"given as its own good run" in itself.stderr
    other = run("predict", "-q", "--healthy", str(failed), "--healthy", str(good), str(CASE), str(CASE))
    assert other.stderr.decode().splitlines() == [
        f"ddpclassify: {failed}: given as a good run, but it looks failed itself: cuda_oom"
    ]
    assert (itself.returncode, itself.stdout) == (0, run("predict", "-q", str(CASE)).stdout)
    assert run("predict", "--healthy", str(tmp_path / "missing"), str(CASE)).returncode == 2
    shown = run("predict", "--healthy", str(failed), str(CASE)).stdout.decode()
    assert "  usual    the cause is in good runs too: they do not tell the two apart" in shown.splitlines()


def test_what_good_runs_show_too_is_counted_below_what_followed(tmp_path: Path) -> None:
    noise = "[rank3]: ERROR: upload of metrics failed\n"
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    good.write_text(f"step 1 loss 0.5\n{noise}step 2 loss 0.5\nTraining complete\n")
    bad.write_text(noise + CASE.read_text())
    done = run("predict", "--healthy", str(good), str(bad))
    assert (done.stderr, done.returncode) == (b"", 0)
    assert "  usual    failures that are in good runs too: 1 (-v shows them)" in done.stdout.decode().splitlines()
    assert "upload of metrics failed (in good runs too)" in run(
        "predict", "-v", "--healthy", str(good), str(bad)
    ).stdout.decode().replace("\n           ", " ")
