"""Model folders from strangers: refused in one line, or harmless."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ddpclassify import load_model
from ddpclassify.cli.model import model
from ddpclassify.model.artifact import MAGIC
from ddpclassify.report import text_report
from ddpclassify.types import InputError

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


def sealed(data: bytes) -> Callable[[Path], None]:
    """Return what writes a model with the right checksum: it is read further."""

    def write(folder: Path) -> None:
        (folder / "model.bin").write_bytes(data)
        changed_card(sha256=hashlib.sha256(data).hexdigest())(folder)

    return write


def zip_bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("model.bin", "../../escaped", "/tmp/escaped"):
            packed.writestr(name, bytes(50_000_000))
    return out.getvalue()


def reheaded(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return what changes the header of the shipped model."""

    def write(folder: Path) -> None:
        data = (folder / "model.bin").read_bytes()
        start = len(MAGIC) + 8
        (length,) = struct.unpack_from("<Q", data, len(MAGIC))
        header = json.loads(data[start : start + length])
        change(header)
        told = json.dumps(header).encode()
        sealed(MAGIC + struct.pack("<Q", len(told)) + told + data[start + length :])(folder)

    return write


HARM: dict[str, Callable[[Path], None]] = {
    "a pickle": written("model.bin", b"\x80\x04cos\nsystem\n(S'touch /tmp/pwned'\ntR."),
    "a pickle with its checksum": sealed(b"\x80\x04cos\nsystem\n(S'touch /tmp/pwned'\ntR."),
    "a zip bomb": sealed(zip_bomb()),
    "a header of ten gigabytes": sealed(MAGIC + struct.pack("<Q", 10 << 30) + b"{}"),
    "a header nested 100,000 deep": sealed(MAGIC + struct.pack("<Q", 100_000) + b"[" * 100_000),
    "a part less": reheaded(lambda header: header.pop("scope")),
    "a class too many": reheaded(lambda header: header["scope"]["classes"].append("more")),
    "classes that are no words": reheaded(lambda header: header["scope"].update(classes=[[]] * 5)),
    "a temperature of NaN": reheaded(lambda header: header["category"].update(temperature=float("nan"))),
    "an array that ends outside": reheaded(lambda header: header["cause"]["arrays"].update(idf=[0, 1 << 40])),
    "an array that begins before": reheaded(lambda header: header["cause"]["arrays"].update(idf=[-8, 8])),
    "an array of another shape": reheaded(lambda header: header["cause"]["arrays"].update(idf=[0, 8])),
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


def test_what_the_header_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "models" / "default", folder)
    reheaded(lambda header: header["category"]["classes"].__setitem__(0, "\x1b[2J\u202e"))(folder)
    for arguments in (["model", str(folder), "--terms", "x"], ["predict", "-v", "--model", str(folder), str(CASE)]):
        done = subprocess.run([sys.executable, "-m", "ddpclassify", *arguments], capture_output=True, text=True)
        assert "Traceback" not in done.stderr
        assert not set("\x1b\u202e") & set(done.stdout + done.stderr)


ANYTHING: list[object] = [
    *(None, True, -1, float("inf"), float("nan"), "\x1b[2J\u202e", [], [1], {}, {"a": {"b": [{}]}}),
    *({"cuda_oom": 5}, {"cuda_oom": {}}, {"cuda_oom": {"origin": "resource", "meaning": "\x1b", "steps": [1]}}),
]


@pytest.mark.parametrize(
    "field", ["name", "version", "threshold", "corpus", "held_out", "libraries", "format", "sha256", "categories"]
)
def test_a_card_may_say_anything(field: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "models" / "default", folder)
    for value in ANYTHING:
        changed_card(**{field: value})(folder)
        try:
            diagnosis = load_model(folder).diagnose(CASE)
        except InputError as error:
            assert str(error).isprintable()
            continue
        assert all(c.isprintable() or c == "\n" for c in text_report(diagnosis, verbose=True))
        shown = CliRunner().invoke(model, [str(folder)])
        assert shown.exit_code == 0
        assert all(c.isprintable() or c == "\n" for c in shown.output)
