"""A full disk is said in one line, and leaves what was there as it was; the next run with room does the rest."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
CASE = str(CASES / "oom-one-of-eight-then-watchdogs.log")


def ddp(*args: object, room: int | None = None, said: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command; no file may grow beyond `room` bytes, which fails as a full disk does."""

    def limit() -> None:
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    command = [sys.executable, "-m", "ddpclassify", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, input=said)


def refused(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("ddpclassify: "), done.stderr


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        ["predict", CASE],
        ["predict", "--json", CASE],
        ["report", CASE, "-o", "-"],
        ["categories"],
        ["generate", "--list"],
    ],
    ids=lambda c: " ".join(c[:1] + [w for w in c if w.startswith("-")]),
)
def test_standard_output_is_full(command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        line = [sys.executable, "-m", "ddpclassify", *command]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True)
    refused(done)
    assert "No space left" in done.stderr


def test_a_page_stays_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("the old page")
    refused(ddp("report", CASE, "-o", page, room=2000))
    assert content(tmp_path) == {"report.html": b"the old page"}


def test_split_leaves_nothing(tmp_path: Path) -> None:
    refused(ddp("split", CASE, "-o", tmp_path / "parts", room=100))
    assert content(tmp_path) == {}


def test_a_model_stays_as_it_was(tmp_path: Path) -> None:
    corpus, model = tmp_path / "corpus", tmp_path / "model"
    assert ddp("generate", "--rendered", "-o", corpus, "--count", 30, "--jobs", 1).returncode == 0
    shutil.copytree(ROOT / "models" / "default", model)
    old = content(model)
    refused(ddp("train", corpus, "-o", model, "--jobs", 1, room=20_000))
    assert {name: data for name, data in content(model).items() if name != "card.new.json"} == old
    assert ddp("predict", "--model", model, CASE).returncode == 0


def test_labels_stay_and_the_next_are_added_once_there_is_room(tmp_path: Path) -> None:
    for case in CASES.glob("*.log"):
        shutil.copy(case, tmp_path)
    labels = tmp_path / "labels.jsonl"
    refused(ddp("label", tmp_path, "-j", 1, said="a\na\na\n", room=200))  # room for one
    first = labels.read_bytes()
    assert (first.count(b"\n"), first[-1:]) == (1, b"\n")
    assert ddp("label", tmp_path, "-j", 1, said="a\na\n").returncode == 0
    assert labels.read_bytes().startswith(first)
    assert labels.read_bytes().count(b"\n") == 3


def test_a_corpus_is_finished_once_there_is_room(tmp_path: Path) -> None:
    whole, short = tmp_path / "whole", tmp_path / "short"
    command = ("generate", "--rendered", "--count", 30, "--jobs", 1, "-o")
    assert ddp(*command, whole).returncode == 0
    refused(ddp(*command, short, room=4000))
    assert not (short / "labels.jsonl").exists()
    assert ddp(*command, short).returncode == 0
    assert content(short) == content(whole)


@pytest.mark.parametrize("room", [3000, 40_000])
def test_results_are_finished_once_there_is_room(room: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    refused(ddp("fleet", CASES, "-o", out, "-j", 1, "--part", 2, room=room))
    assert ddp("fleet", CASES, "-o", out, "-j", 1, "--part", 2).returncode in (0, 1)
    rows = [json.loads(row) for part in out.glob("part-*.jsonl") for row in part.read_text().splitlines()]
    read = sorted(row["source"] for row in rows if row["source"].endswith(".log"))
    assert read == sorted(str(path) for path in CASES.glob("*.log"))


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of 300 kB of the command's own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    make = f"mount -t tmpfs -o size=300k none {disk} && "
    apart = ["unshare", "-Urm", "sh", "-c"]
    try:
        subprocess.run([*apart, make + "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system of one's own may be mounted here")
    command = f"{sys.executable} -m ddpclassify generate --rendered -o {disk}/c --count 300 --jobs 1"
    done = subprocess.run([*apart, f"{make}{command}; s=$?; ls {disk}/c; exit $s"], capture_output=True, text=True)
    refused(done)
    assert "No space left" in done.stderr
    assert "labels.jsonl\n" not in done.stdout
