"""`ddpclassify run`: the job does not notice, and neither does who reads its output or its exit status."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import resource
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

CASE = Path(__file__).parent.parent / "cases" / "oom-one-of-eight-then-watchdogs.log"
DDP = [sys.executable, "-m", "ddpclassify", "run"]


def run(
    folder: Path, *command: str, options: tuple[str, ...] = ("-q",), before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[bytes]:
    full = [*DDP, *options, "--logs", str(folder), "--", *command]
    return subprocess.run(full, capture_output=True, check=False, preexec_fn=before, timeout=300)


def output(folder: Path) -> bytes:
    (path,) = folder.glob("*/output.log")
    return path.read_bytes()


def test_output_and_log_hold_every_byte(tmp_path: Path) -> None:
    script = r"printf '\033[31mred\033[0m\r50%%\r\000\377no newline'; printf 'err\n' >&2"
    done = run(tmp_path, "sh", "-c", script)
    assert done.stdout == b"\x1b[31mred\x1b[0m\r50%\r\x00\xffno newline"
    assert done.stderr == b"err\n"
    assert sorted([done.stdout, done.stderr]) == sorted([output(tmp_path).replace(b"err\n", b""), b"err\n"])


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["sh", "-c", "exit 0"], 0),
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "exit 255"], 255),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -SEGV $$"], 139),
        (["no-such-command"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_exit_status_is_the_jobs(command: list[str], status: int, tmp_path: Path) -> None:
    assert run(tmp_path, *command, options=("-q", "--no-diagnosis")).returncode == status


def test_a_failure_is_diagnosed_below_the_output(tmp_path: Path) -> None:
    done = run(tmp_path, "sh", "-c", f"cat {CASE}; exit 1")
    assert (done.returncode, done.stdout) == (1, CASE.read_bytes())
    assert b"cuda_oom" in done.stderr
    assert b"rank 5 of 8" in done.stderr
    as_json = run(tmp_path, "sh", "-c", f"cat {CASE}; exit 1", options=("-q", "--json"))
    assert json.loads(as_json.stderr)["culprit_ranks"] == [5]


def test_a_job_that_ends_well_has_no_diagnosis_and_what_was_set_is_said(tmp_path: Path) -> None:
    show = "import os; print(os.environ.get('PYTHONFAULTHANDLER'), os.environ['TORCHELASTIC_ERROR_FILE'])"
    done = run(tmp_path, sys.executable, "-c", show, options=())
    assert done.stdout.startswith(b"1 /")
    assert done.stderr.count(b"\n") == 1
    assert b"PYTHONFAULTHANDLER=1" in done.stderr
    plain = run(tmp_path, "sh", "-c", "echo $PYTHONFAULTHANDLER", options=("--plain",))
    assert plain.stdout == b"\n"
    assert b"set " not in plain.stderr


def test_a_death_without_a_word_is_explained(tmp_path: Path) -> None:
    assert b"SIGKILL" in run(tmp_path, "sh", "-c", "kill -9 $$").stderr


def test_output_comes_as_it_is_written(tmp_path: Path) -> None:
    command = [*DDP, "-q", "--logs", str(tmp_path), "--", sys.executable, "-c", "print('here'); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"here\n"  # while it waits for us
        assert output(tmp_path) == b"here\n"
        job.communicate(b"\n")
    assert job.returncode == 0


def test_signals_are_passed_on(tmp_path: Path) -> None:
    script = (
        "import signal, sys\n"
        "wanted = {signal.SIGTERM, signal.SIGUSR1, signal.SIGINT}\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, wanted)\n"
        "print('ready', flush=True)\n"
        "for _ in range(3):\n    print('got', signal.sigwait(wanted).name, flush=True)\n"
        "sys.exit(5)\n"
    )
    command = [*DDP, "-q", "--no-diagnosis", "--logs", str(tmp_path), "--", sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"ready\n"
        for name in ("USR1", "INT", "TERM"):
            job.send_signal(signal.Signals[f"SIG{name}"])
            assert job.stdout.readline() == f"got SIG{name}\n".encode()
    assert job.returncode == 5


def test_a_signal_that_slurm_sends_to_all_processes_reaches_the_job_once(tmp_path: Path) -> None:
    """A shell that calls itself slurmstepd signals us and the job, as scancel makes it do."""
    (tmp_path / "slurmstepd").symlink_to("/bin/bash")
    script = (
        "import signal, time\nseen = []\nsignal.signal(signal.SIGUSR1, lambda *_: seen.append(1))\n"
        "print('ready', flush=True)\n"
        "while not seen:\n    time.sleep(0.02)\n"
        "time.sleep(0.5)\nprint('times', len(seen), flush=True)\n"
    )
    command = [*DDP, "-q", "--no-diagnosis", "--logs", str(tmp_path / "logs"), "--", sys.executable, "-c", script]
    for to_all in (True, False):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as job:
            assert job.stdout is not None
            assert job.stdout.readline() == b"ready\n"
            sender = tmp_path / "slurmstepd" if to_all else Path("/bin/bash")
            pids = [job.pid, *_children(job.pid)] if to_all else [job.pid]
            line = f"kill -USR1 {' '.join(map(str, pids))}; sleep 1; true"
            subprocess.run([str(sender), "-c", line], check=True)
            assert job.stdout.read() == b"times 1\n"
        assert job.returncode == 0


def test_a_signal_that_kills_a_shell_leaves_nothing_running(tmp_path: Path) -> None:
    command = [*DDP, "-q", "--no-diagnosis", "--logs", str(tmp_path), "--", "bash", "-c", "sleep 600; true"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as job:
        while not (children := _children(job.pid)) or not (sleeping := _children(children[0])):
            time.sleep(0.02)
        job.terminate()
    assert job.returncode == 143
    assert not Path(f"/proc/{sleeping[0]}/exe").exists()


def _children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_reader_that_goes_away_ends_the_job_as_without_us(tmp_path: Path) -> None:
    line = " ".join([*DDP, "-q", "--no-diagnosis", "--logs", str(tmp_path), "--", "yes"])
    done = subprocess.run(
        ["bash", "-c", f"{line} | head -1; echo ${{PIPESTATUS[0]}}"], capture_output=True, timeout=30, check=False
    )
    assert done.stdout == b"y\n141\n"


def test_what_the_job_leaves_running_does_not_hold_us(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "sleep 60 & echo $!; exit 4", options=("-q", "--no-diagnosis")).returncode == 4


def test_the_job_goes_on_when_the_log_can_not(tmp_path: Path) -> None:
    """A file size limit stands for a full disk; the pipes of the job know none."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    done = run(tmp_path, "sh", "-c", f"cat {CASE}; exit 6", before=limit)
    assert (done.returncode, done.stdout) == (6, CASE.read_bytes())
    assert len(output(tmp_path)) == 2048
    assert b"the log ends here, the job goes on" in done.stderr
    assert b"cuda_oom" in done.stderr  # the rest was in memory
    nowhere = run(Path("/proc/nowhere"), "sh", "-c", "echo fine; exit 6")
    assert (nowhere.returncode, nowhere.stdout) == (6, b"fine\n")


def test_the_exit_status_stands_when_the_diagnosis_breaks(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "card.json").write_text("{broken")
    done = run(tmp_path / "logs", "sh", "-c", "exit 8", options=("-q", "--model", str(tmp_path / "model")))
    assert done.returncode == 8
    assert b"no diagnosis (" in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_job_goes_on_when_our_side_breaks(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom ddpclassify.wrap import Record, run_job\n"
        "def broken(self, channel, piece):\n    raise MemoryError('no room')\n"
        "Record.take = broken\n"
        f"sys.exit(run_job(['sh', '-c', 'echo one; sleep 0.2; echo two; exit 7'], Path({str(tmp_path)!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (7, b"one\ntwo\n")
    assert done.stderr.count(b"the job goes on (MemoryError: no room)") == 1


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
def test_the_exit_status_stands_when_the_diagnosis_is_killed(name: str, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom ddpclassify.wrap import run_job\n"
        f"def killed(*_):\n    os.kill(os.getpid(), signal.{name})\n"
        f"sys.exit(run_job(['sh', '-c', 'echo one; exit 7'], Path({str(tmp_path)!r}), quiet=True, diagnose=killed))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (7, b"one\n")
    assert done.stderr.count(b"\n") == 1
    assert f"no diagnosis ({name})".encode() in done.stderr


def test_the_job_goes_on_when_we_are_killed(tmp_path: Path) -> None:
    """Its output too: to where it went, and into the kept log."""
    script = (
        f"echo before; while [ ! -e {tmp_path}/on ]; do sleep 0.05; done; "
        f"for i in 1 2 3; do echo after $i || exit 9; done; echo words >&2; touch {tmp_path}/done; exit 7"
    )
    command = [*DDP, "-q", "--logs", str(tmp_path / "logs"), "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ours:
        assert ours.stdout is not None
        assert ours.stdout.readline() == b"before\n"
        ours.kill()
        ours.wait()
        (tmp_path / "on").touch()
        assert ours.communicate(timeout=30) == (b"after 1\nafter 2\nafter 3\n", b"words\n")
    assert (tmp_path / "done").exists()
    assert sorted(output(tmp_path / "logs").split()) == sorted(b"before after 1 after 2 after 3 words".split())


def test_nothing_changes_when_the_standby_is_killed(tmp_path: Path) -> None:
    script = f"echo before; while [ ! -e {tmp_path}/on ]; do sleep 0.05; done; echo after; exit 7"
    command = [*DDP, "-q", "--no-diagnosis", "--logs", str(tmp_path / "logs"), "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as ours:
        assert ours.stdout is not None
        assert ours.stdout.readline() == b"before\n"
        os.kill(_children(ours.pid)[1], signal.SIGKILL)
        (tmp_path / "on").touch()
        assert ours.stdout.read() == b"after\n"
    assert (ours.returncode, output(tmp_path / "logs")) == (7, b"before\nafter\n")


STACK = (
    "Traceback (most recent call last):\n"
    '  File "/home/u/train.py", line 88, in train_step\n    loss = criterion(out)\n'
    "NameError: name 'criterion' is not defined"
)


def _leave(error: object) -> list[str]:
    return [sys.executable, "-c", f"import os; open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write({error!r})"]


def test_the_error_file_speaks_where_the_log_is_silent(tmp_path: Path) -> None:
    """As with a launcher that shows only its own lines, of workers under `@record`."""
    extra = {"py_callstack": STACK, "timestamp": "1", "rank": 3}
    error = json.dumps({"message": {"message": "NameError: name 'criterion' is not defined", "extraInfo": extra}})
    leave = " ".join(map(shlex.quote, _leave(error)))
    script = f"echo '[rank3]: step 7 loss 0.5'; {leave}; "
    answer = json.loads(run(tmp_path / "a", "sh", "-c", script + "exit 1", options=("-q", "--json")).stderr)
    assert (answer["category"], answer["culprit_ranks"], answer["lines"]) == ("code_error", [3], 1)
    best = answer["evidence"][0]
    assert best["text"] == "NameError: name 'criterion' is not defined"
    assert (best["line"], best["file"].endswith("error.json")) == (4, True)
    # Where the log states it, the log is the proof.
    said = f"{script} printf %s {shlex.quote(STACK)}; exit 1"
    answer = json.loads(run(tmp_path / "b", "sh", "-c", said, options=("-q", "--json")).stderr)
    assert (answer["evidence"][0]["line"], answer["evidence"][0]["file"]) == (5, None)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"message": 3}', '{"message": {"extraInfo": []}}', "[" * 99999])
def test_a_broken_error_file_changes_nothing(content: str, tmp_path: Path) -> None:
    script = f"cat {CASE}; " + " ".join(map(shlex.quote, _leave(content))) + "; exit 1"
    done = run(tmp_path, "sh", "-c", script, options=("-q", "--json"))
    assert json.loads(done.stderr)["culprit_ranks"] == [5]


class Terminal:
    """A shell with job control on a terminal, as a person has it."""

    def __init__(self) -> None:
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execvp("bash", ["bash", "--norc", "-i"])
        self.pid, self.seen = pid, b""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
        self.type("PS1=; bind 'set enable-bracketed-paste off'; stty -echo; echo read''y\n")
        self.until("ready")

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, word: str, seconds: float = 30) -> str:
        end = time.monotonic() + seconds
        while word.encode() not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], end - time.monotonic())
            assert ready, f"no {word!r} in {self.seen!r}"
            self.seen += os.read(self.fd, 4096)
        before, found, self.seen = self.seen.partition(word.encode())
        return (before + found).decode(errors="replace")

    def close(self) -> None:
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def test_at_a_terminal_it_feels_like_the_job_alone(tmp_path: Path) -> None:
    """Colours, size, typing, Ctrl-Z and fg, Ctrl-C once and to the job."""
    (tmp_path / "job.py").write_text(
        "import os, signal, sys, time\n"
        "seen = []\n"
        "signal.signal(signal.SIGINT, lambda *_: (seen.append(1), print('interrupted', flush=True)))\n"
        "print(sys.stdout.isatty(), sys.stderr.isatty(), *os.get_terminal_size(), flush=True)\n"
        "print('hello', input('name? '), flush=True)\n"
        "while len(seen) < 2:\n    time.sleep(0.05)\n"
        "sys.exit(9)\n"
    )
    terminal = Terminal()
    try:
        options = ["-q", "--no-diagnosis", "--logs", str(tmp_path / "logs")]
        command = [*DDP, *options, "--", sys.executable, str(tmp_path / "job.py")]
        terminal.type(" ".join(command) + "\n")
        assert "True True 101 33" in terminal.until("name? ")
        terminal.type("Ann\n")
        terminal.until("hello Ann")
        terminal.type("\x1a")
        terminal.until("Stopped")
        terminal.type("echo shell''again; fg\n")
        terminal.until("shellagain")
        terminal.until("job.py")
        time.sleep(0.3)  # until it is in the foreground again
        terminal.type("\x03")
        terminal.until("interrupted")
        terminal.type("\x03")
        terminal.until("interrupted")
        terminal.type("echo status''=$?\n")
        terminal.until("status=9")
    finally:
        terminal.close()
    assert output(tmp_path / "logs").count(b"interrupted") == 2
    assert b"\r\n" not in output(tmp_path / "logs")


@pytest.mark.gloo
def test_real_jobs_under_each_launcher(failing_job: list[str], tmp_path: Path) -> None:
    done = run(tmp_path / "logs", *failing_job, options=("-q", "--json"))
    answer = json.loads(done.stderr.splitlines()[-1])
    assert done.returncode in (1, 134)  # 134: native threads abort as the rank ends, at times
    assert done.stdout.count(b"step 2 loss 0.5") == 2
    assert answer["culprit_ranks"] == [1], output(tmp_path / "logs").decode()
    proofs = [item["text"] for item in answer["evidence"]]
    assert any("KeyError: 'missing'" in proof for proof in proofs), (proofs, output(tmp_path / "logs").decode())
    if "torch.distributed.run" in failing_job:  # what `run` adds to make its log readable
        assert b"[default1]:[rank1]: step 2 loss 0.5\n" in done.stdout
        assert len(list((tmp_path / "logs").glob("*/ranks/**/stdout.log"))) == 2
