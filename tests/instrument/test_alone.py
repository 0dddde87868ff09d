"""`ddpclassify.instrument` in one process: safe without torch, without a launcher, and twice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MARK = r"\[rank3\]:\[local1\]: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} [\w-]+ \| "
BLOCK_TORCH = "import sys; sys.modules['torch'] = None\n"


def run(code: str, env: dict[str, str] | None = None, rank: int | None = 3) -> subprocess.CompletedProcess[str]:
    ranks = {"RANK": str(rank), "LOCAL_RANK": "1", "WORLD_SIZE": "8"} if rank is not None else {}
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")}
    head = BLOCK_TORCH + "from ddpclassify import instrument\n"
    done = subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, env={**clean, **ranks, **(env or {})}, timeout=60
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_every_line_bears_rank_local_rank_time_and_host() -> None:
    code = (
        "import logging, sys\ninstrument.setup(); instrument.setup()\n"
        "print('a\\nb'); print('c', 'd'); sys.stdout.write('half '); sys.stdout.write('line\\n')\n"
        "logging.warning('careful'); logging.getLogger('x').info('told'); print('no end', end='')"
    )
    done = run(code)
    assert [re.sub(f"^{MARK}", "@", line) for line in done.stdout.split("\n")] == [
        "@a",
        "@b",
        "@c d",
        "@half line",
        "@no end",
    ]
    marked = [re.sub(f"^{MARK}", "@", line) for line in done.stderr.splitlines()]
    assert marked[0].startswith("@started: rank 3, pid ")
    assert marked[-2:] == ["@WARNING root: careful", "@INFO x: told"]
    assert all(line.startswith("@") for line in marked)


def test_the_marks_are_those_that_logs_are_read_by(tmp_path: Path) -> None:
    from ddpclassify.ranks import attribute
    from ddpclassify.read import read

    done = run("instrument.setup()\nfor step in range(5): print('step', step)")
    line = attribute(read(done.stdout.splitlines())).lines[0]
    assert (line.rank, line.local_rank, line.text) == (3, 1, "step 0")
    assert line.host
    assert line.time is not None


def test_progress_bars_and_foreign_handlers_survive() -> None:
    code = (
        "import logging, sys\nhandler = logging.StreamHandler()\nlogging.getLogger('old').addHandler(handler)\n"
        "instrument.setup()\nlogging.getLogger('old').propagate = False\nlogging.getLogger('old').error('kept')\n"
        "for i in range(3):\n    sys.stderr.write(f'\\r{i}/3'); sys.stderr.flush()\nsys.stderr.write('\\n')"
    )
    lines = run(code).stderr.split("\n")
    assert re.fullmatch(MARK + "kept", lines[1])
    assert re.fullmatch("\r" + MARK + "0/3\r1/3\r2/3", lines[2])


def test_an_exception_is_told_with_its_place_and_its_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "error.json"
    code = "instrument.setup()\ninstrument.at(step=41, batch=7)\ninstrument.at(step=42)\n{}['x']"
    done = run(code, {"TORCHELASTIC_ERROR_FILE": str(file)})
    assert done.returncode == 1
    assert "rank 3 ends at step 42, batch 7 with KeyError" in done.stderr
    assert done.stderr.count("KeyError: 'x'") == 1
    row = json.loads(file.read_text())["message"]
    assert row["message"] == "KeyError: 'x'"
    assert "py_callstack" in row["extraInfo"]
    assert (row["extraInfo"]["step"], row["extraInfo"]["rank"]) == (42, 3)
    assert os.listdir(tmp_path / "new") == ["error.json"]  # noqa: PTH208


def test_an_error_file_that_is_there_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_text("{}")
    run("instrument.setup()\n1/0", {"TORCHELASTIC_ERROR_FILE": str(file)})
    assert file.read_text() == "{}"
    assert run("instrument.setup()\n1/0", {"TORCHELASTIC_ERROR_FILE": "/proc/no/file"}).returncode == 1


def test_guard_tells_what_the_hook_does_not_see_and_only_once() -> None:
    code = (
        "instrument.setup()\n@instrument.guard()\ndef work():\n    instrument.at(step=1)\n    raise ValueError('x')\n"
        "try:\n    work()\nexcept ValueError:\n    print('came through')\nwork()"
    )
    done = run(code)
    assert "came through" in done.stdout
    assert done.stderr.count("ends at step 1 with ValueError") == 2
    assert done.stderr.count("Traceback") == 1


def test_ctrl_c_exits_and_threads() -> None:
    assert "ends at" not in run("instrument.setup()\nraise KeyboardInterrupt").stderr
    assert run("instrument.setup()\nimport sys\nsys.exit(4)").returncode == 4
    code = "instrument.setup()\nimport threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()"
    done = run(code)
    assert (done.returncode, done.stderr.count("ZeroDivisionError: ")) == (0, 1)
    assert "with ZeroDivisionError" in done.stderr


def test_alone_nothing_waits() -> None:
    code = (
        "instrument.setup()\ninstrument.checkpoint('after load', timeout=1)\n"
        "instrument.preflight(data_length=3)\nprint('done')"
    )
    done = run(code, {"DEBUG_DDP": "1"}, rank=None)
    assert done.returncode == 0
    assert "checkpoint 'after load' reached" in done.stderr
    assert "rank" not in done.stdout


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "abc"}, "MASTER_PORT='abc' is no port"),
        ({"MASTER_ADDR": "no-such-host.invalid", "MASTER_PORT": "1"}, "does not resolve"),
        ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}, "can't reach 127.0.0.1:1"),
    ],
)
def test_the_rendezvous_is_checked_before_the_group_is_made(env: dict[str, str], problem: str) -> None:
    code = "instrument.setup()\ninstrument.preflight(timeout=0.1)"
    assert run(code, env).returncode == 0
    done = run(code, {"DEBUG_DDP": "1", **env})
    assert done.returncode == 1
    assert "PreflightError: pre-flight: " in done.stderr
    assert problem in done.stderr
