"""Model folders from strangers: refused in one line, or harmless."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASE = next((ROOT / "tests" / "cases").glob("*.log"))


def changed_card(**fields: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        card = json.loads((folder / "card.json").read_text())
        (folder / "card.json").write_text(json.dumps({**card, **fields}))

    return change


def written(name: str, data: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return write


def large(folder: Path) -> None:
    os.truncate(folder / "model.bin", 10 << 30)  # sparse: ten gigabytes of nothing


def linked(folder: Path) -> None:
    (folder / "model.bin").unlink()
    (folder / "model.bin").symlink_to("/dev/zero")


def piped(folder: Path) -> None:
    (folder / "card.json").unlink()
    (folder / "card.json").symlink_to("/dev/zero")


HARM: dict[str, Callable[[Path], None]] = {
    "a pickle": written("model.bin", b"\x80\x04cos\nsystem\n(S'touch /tmp/pwned'\ntR."),
    "an empty card": written("card.json", b""),
    "a card nested 100,000 deep": written("card.json", b"[" * 100_000),
    "a card of a huge number": written("card.json", b'{"format": ' + b"9" * 5000 + b"}"),
    "a card that is no UTF-8": written("card.json", b"\xff\xfe\x00"),
    "a threshold that is no number": changed_card(threshold="high"),
    "a threshold that is a list": changed_card(threshold=[1]),
    "an endless card": piped,
    "a path in the card": changed_card(sha256="../../../etc/passwd"),
    "ten gigabytes": large,
    "an endless device": linked,
}


@pytest.mark.parametrize("harm", HARM)
def test_a_hostile_model_is_refused_in_one_line(harm: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "models" / "default", folder)
    HARM[harm](folder)
    command = [sys.executable, "-m", "ddpclassify", "predict", "--model", str(folder), str(CASE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("ddpclassify: ")


def test_what_the_card_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "models" / "default", folder)
    changed_card(name="\x1b[2J\nevil", version="\x1b]0;x\x07")(folder)
    command = [sys.executable, "-m", "ddpclassify", "predict", "-v", "--model", str(folder), str(CASE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "\x1b" not in done.stdout + done.stderr
