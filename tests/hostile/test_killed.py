"""Commands killed at random moments leave what was there or what they make, whole, and go on when started again.

Fifty kills in all; `DDPCLASSIFY_KILLS=10` makes them ten times as many.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpclassify.files import add_line, alone, write_whole
from ddpclassify.model import load
from ddpclassify.types import InputError

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*.log"))
TIMES = int(os.environ.get("DDPCLASSIFY_KILLS", "1"))


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "ddpclassify", *map(str, args)]


def whole_run(line: list[str]) -> float:
    """Run a command undisturbed; returns the seconds."""
    start = time.monotonic()
    subprocess.run(line, check=True, capture_output=True)
    return time.monotonic() - start


def killed_at_random(line: list[str], seconds: float, kills: int) -> Iterator[bool]:
    """Start a command again and again, kill it and all it started each time; yields whether it was still at work."""
    rng = random.Random(kills)
    for _ in range(kills * TIMES):
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(seconds * rng.uniform(0.3, 1))
        running = process.poll() is None
        if running:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        yield running


def content(folder: Path) -> dict[str, bytes]:
    """What others see of a folder: hidden files are halves and locks."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("[!.]*") if p.is_file()}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    whole_run(command("generate", "--rendered", "-o", tmp_path / "corpus", "--count", 30, "--jobs", 1))
    return tmp_path / "corpus"


def test_train_leaves_the_old_model_or_the_new(corpus: Path, tmp_path: Path) -> None:
    line = command("train", corpus, "-o", tmp_path / "model", "--jobs", 1)
    seconds = whole_run([*line, "--name", "old"])
    for _ in killed_at_random([*line, "--name", "new"], seconds, 5):
        assert load(tmp_path / "model")[1]["name"] in ("old", "new")
    whole_run([*line, "--name", "new"])
    assert load(tmp_path / "model")[1]["name"] == "new"
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["card.json", "held_out.txt", "model.bin"]


def test_a_model_written_again_and_again_is_whole_at_any_moment(tmp_path: Path) -> None:
    """The moments of writing are short beside a training: this hits them."""
    shipped = Path(__file__).parents[2] / "models" / "default"
    write = (
        "import dataclasses, itertools, pathlib, sys\nfrom ddpclassify.model import load, save\n"
        "shipped, out = map(pathlib.Path, sys.argv[1:])\nparts, card = load(shipped)\n"
        "other = dataclasses.replace(parts, cause=parts.rank)\n"
        "for p, name in itertools.cycle([(parts, 'shipped'), (other, 'other')]):\n"
        "    save(p, {**card, 'name': name}, out)\n"
    )
    for _ in killed_at_random([sys.executable, "-c", write, str(shipped), str(tmp_path)], 1.5, 12):
        if (tmp_path / "card.json").exists():
            parts, card = load(tmp_path)
            assert card["name"] == ("other" if len(parts.cause.terms) == len(parts.rank.terms) else "shipped")
    assert (tmp_path / "card.json").exists()


def test_generate_goes_on_to_the_same_corpus(tmp_path: Path) -> None:
    line = command("generate", "--rendered", "--count", 120, "--jobs", 1, "-o")
    seconds = whole_run([*line, str(tmp_path / "quiet")])
    finished = 0
    for _ in killed_at_random([*line, str(tmp_path / "out0")], seconds, 10):
        out = tmp_path / "out0"
        if (out / "labels.jsonl").exists():
            assert content(out) == content(tmp_path / "quiet")
            finished += 1
            out.rename(tmp_path / f"finished{finished}")
    whole_run([*line, str(tmp_path / "out0")])
    assert content(tmp_path / "out0") == content(tmp_path / "quiet")


def test_label_keeps_all_that_was_answered(tmp_path: Path) -> None:
    """Killed while it writes a label: all labels before are there, and that one wholly or not at all."""
    folder, labels = tmp_path / "logs", tmp_path / "logs" / "labels.jsonl"
    folder.mkdir()
    for number in range(30 * TIMES):
        (folder / f"{number}.log").write_bytes(CASES[number % len(CASES)].read_bytes())
    rng, before = random.Random(5), b""
    for _ in range(9 * TIMES):
        with subprocess.Popen(
            command("label", folder, "-j", 1), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for _ in range(rng.randrange(1, 4)):
                shown = b""
                while b"[q]uit" not in shown:
                    shown += (piece := os.read(process.stdout.fileno(), 1 << 16))
                    assert piece, shown
                before = labels.read_bytes() if labels.exists() else b""  # all that is answered by now
                process.stdin.write(b"a\n")
                process.stdin.flush()
            time.sleep(rng.uniform(0, 0.01))
            os.killpg(process.pid, signal.SIGKILL)
        now = labels.read_bytes() if labels.exists() else b""
        assert now.startswith(before)
        assert now.count(b"\n") - before.count(b"\n") in (0, 1)
        assert now == b"" or now.endswith(b"}\n")
    subprocess.run(command("label", folder, "-j", 1), input=b"a\n" * 30 * TIMES, check=True, capture_output=True)
    logs = [json.loads(row)["log"] for row in labels.read_text().splitlines()]
    assert sorted(logs) == sorted(path.name for path in folder.glob("*.log"))
    assert [path.name for path in folder.glob(".*")] == []


def test_fleet_loses_and_doubles_nothing(tmp_path: Path) -> None:
    folder, out = tmp_path / "logs", tmp_path / "out"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.log").write_bytes(CASES[number % len(CASES)].read_bytes())
    line = command("fleet", folder, "--part", 10, "-j", 1, "-o")
    seconds = whole_run([*line, str(tmp_path / "quiet")])
    for _ in killed_at_random([*line, str(out)], seconds, 8):
        pass
    whole_run([*line, str(out)])

    def rows(results: Path) -> list[str]:
        parts = sorted(results.glob("part-*.jsonl"))
        return [json.loads(row)["source"] for part in parts for row in part.read_text().splitlines()]

    assert sorted(rows(out)) == sorted(rows(tmp_path / "quiet"))


def test_predict_has_written_whole_lines_in_order(tmp_path: Path) -> None:
    """A stream has nothing to resume; what came is right but perhaps for a last line cut short."""
    names = tmp_path / "names"
    names.write_text("".join(f"{CASES[n % len(CASES)]}\n" for n in range(120)))
    output = tmp_path / "answers"
    line = ["sh", "-c", f"{sys.executable} -m ddpclassify predict --json -j 2 --each - < {names} > {output}"]
    seconds = whole_run(line)
    quiet = output.read_bytes()
    assert quiet.count(b"\n") == 120
    for running in killed_at_random(line, seconds, 6):
        got = output.read_bytes()
        assert quiet.startswith(got)
        assert running or got == quiet


def _holds(folder: Path, then: str) -> subprocess.Popen[bytes]:
    code = f"import pathlib, time\nfrom ddpclassify.files import alone\nwith alone(pathlib.Path({str(folder)!r})):\n"
    code += f"    {then}"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


def test_a_folder_has_one_writer_until_it_ends_in_any_way(tmp_path: Path) -> None:
    with _holds(tmp_path, "print(1, flush=True); time.sleep(600)") as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        for rival in (
            command("train", tmp_path / "corpus", "-o", tmp_path),
            command("generate", "--rendered", "--count", 3, "-o", tmp_path),
            command("label", tmp_path),
        ):
            if rival[3] == "train":
                subprocess.run(
                    command("generate", "--rendered", "--count", 4, "--jobs", 1, "-o", tmp_path / "corpus"), check=True
                )
            done = subprocess.run(rival, capture_output=True, text=True)
            assert done.returncode == 1
            assert "another run is writing here" in done.stderr
        (tmp_path / ".x.1.half").touch()
        holder.kill()
    with alone(tmp_path):
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [".lock"]
    with pytest.raises(InputError, match="Not a directory"), alone(Path("/dev/null/x")):
        pass


def test_many_writers_never_hold_a_folder_together(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    once = (
        "pass\n"
        f"inside = pathlib.Path({str(inside)!r})\n"
        "for _ in range(100):\n"
        "    try:\n"
        f"        with alone(pathlib.Path({str(tmp_path)!r})):\n"
        "            inside.touch(exist_ok=False); inside.unlink()\n"
        "    except Exception as error:\n"
        "        assert 'another run' in str(error), error\n"
    )
    writers = [_holds(tmp_path / "other" / str(n), once) for n in range(3)]
    assert [writer.communicate() and writer.returncode for writer in writers] == [0, 0, 0]


def test_what_can_not_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory"):
        write_whole(tmp_path, "x")
    assert list(tmp_path.parent.glob(".*.half")) == []


def test_a_link_and_who_may_read_a_file_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, "new")
    assert (link.is_symlink(), file.read_text(), file.stat().st_mode & 0o777) == (True, "new", 0o640)


def test_a_device_and_a_pipe_are_written_into_and_stay(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    write_whole(tmp_path / "null", "x")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(InputError, match="No space left"):
        write_whole(Path("/dev/full"), "x")
    line = command("report", CASES[0], "-o", "/dev/stdout")
    assert subprocess.run(line, capture_output=True, text=True).stdout.startswith("<!DOCTYPE html>")
    for folder in (Path("/"), Path()):
        with pytest.raises(InputError, match="Is a directory"):
            write_whole(folder, "x")


def test_a_line_is_added_below_what_people_wrote(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for line in ("one", "two"):
        add_line(file, line)
    assert file.read_text() == "one\ntwo\n"
    file.write_text("by hand, without an end")
    add_line(file, "three")
    assert file.read_text() == "by hand, without an end\nthree\n"
