"""`--redact`: no secret of the log reaches any output, and the diagnosis stays what it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpclassify import load_model
from ddpclassify.redact import MASK, Secret, mask, mask_pieces, redact, table
from ddpclassify.types import Excerpt, RawLine, SourceFile

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.log"))
ROWS = [pytest.param(row, id=row.name) for row in table()]
SECRETS = [example[example.index("⟦") + 1 : example.index("⟧")] for row in table() for example in row.masks]
BODY = "MIIEowIBAAKCAQEA7c9Jqk0x" * 2
KEY = ["-----BEGIN RSA PRIVATE KEY-----", BODY, "aGVsbG8gd29ybGQ=", "-----END RSA PRIVATE KEY-----"]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_masks_its_examples_and_keeps_what_only_looks_like_them(row: Secret) -> None:
    for example in row.masks:
        before, _, rest = example.partition("⟦")
        secret, _, after = rest.partition("⟧")
        masked = mask(before + secret + after)
        assert (MASK in masked, secret in masked) == (True, False)
        assert (masked.startswith(before), masked.endswith(after)) == (True, True)
    for example in row.keeps:
        assert mask(example) == example


def excerpt(*lines: str) -> Excerpt:
    return Excerpt("x", (SourceFile("x"),), tuple(RawLine(0, i, t) for i, t in enumerate(lines, 1)), len(lines), 0)


def test_a_private_key_is_masked_line_by_line_also_behind_prefixes() -> None:
    after = "step 3 loss 0.5 of the run with id 0123456789abcdef0123"
    lines = [line.text for line in redact(excerpt(*("[rank1]: " + line for line in KEY), after)).lines]
    assert lines[1:3] == [f"[rank1]: {MASK}"] * 2
    assert lines[4] == after


def test_half_a_secret_at_the_end_of_a_cut_line_is_masked() -> None:
    line = "x " * 2000 + "hf_AbCdEfGhIj"
    assert redact(excerpt(line)).lines[0].text.endswith("x " + MASK)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 60), max_size=40))
def test_a_secret_cut_between_two_pieces_of_a_line_is_masked(cuts: list[int]) -> None:
    line = " ".join(secret for secret in SECRETS if " " not in secret and "\n" not in secret and secret != "p@ss")
    line = f"connect postgresql://u:{SECRETS[0]}@h/ {line} \n"
    data, pieces = line.encode(), list[tuple[bytes, bool]]()
    while data:
        n = cuts.pop() if cuts else len(data)
        pieces.append((data[:n], not pieces))
        data = data[n:]
    masked = list(mask_pieces(pieces))
    assert b"".join(piece for piece, _ in masked) == b"".join(p for p, _ in mask_pieces([(line.encode(), True)]))
    assert [begins for _, begins in masked] == [True] + [False] * (len(masked) - 1)


def leaky(tmp_path: Path) -> Path:
    """A log whose failure tells every secret of the table: in its message, its code, around it, and in its name."""
    secrets = [s for s in SECRETS if "\n" not in s]
    told = [
        example.replace("⟦", "").replace("⟧", "") for row in table() for example in row.masks if "\n" not in example
    ]
    lines = ["[rank0]: step 1 loss 0.5", *KEY]
    for text in told:
        lines += [
            "[rank1]: Traceback (most recent call last):",
            '[rank1]:   File "/job/train.py", line 7, in main',
            f"[rank1]:     connect({text!r})",
            f"[rank1]: RuntimeError: {text}",
        ]
    log = tmp_path / "jane.doe@example.org.log"
    log.write_text("\n".join(lines) + "\n")
    assert all(secret in log.read_text() for secret in secrets)
    return log


@pytest.mark.parametrize(
    "args",
    [
        ["predict", "LOG"],
        ["predict", "-v", "LOG"],
        ["predict", "-q", "LOG"],
        ["predict", "--json", "LOG", "no-such/jane.doe@example.org"],
        ["report", "--json", "LOG", "no-such/jane.doe@example.org", "-o", "OUT/page.html"],
        ["split", "--json", "LOG", "-o", "OUT/parts"],
        ["split", "--raw", "LOG", "-o", "OUT/parts"],
        ["watch", "LOG", "--once", "--json", "--settle", "0.1"],
        ["watch", "LOG", "--once", "--settle", "0.1"],
        ["run", "--logs", "OUT/kept", "--json", "--", "sh", "-c", "cat LOG > /dev/stderr; exit 1"],
    ],
    ids=lambda args: " ".join(args[:2]),
)
def test_no_output_shows_a_secret(args: list[str], tmp_path: Path) -> None:
    log, out = leaky(tmp_path), tmp_path / "out"
    out.mkdir()
    args = [arg.replace("LOG", str(log)).replace("OUT", str(out)) for arg in args]
    command = [sys.executable, "-m", "ddpclassify", args[0], "--redact", *args[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if args[0] == "run":  # what the job itself wrote passes unchanged; the diagnosis is the last line
        outputs = [done.stderr.splitlines()[-1]]
    else:
        outputs = [
            done.stdout,
            done.stderr,
            *(p.read_text() for p in out.rglob("*.*") if p.is_file()),
        ]
    assert "Traceback (most recent call last):\n" not in done.stderr or args[0] == "run"
    hidden = [secret for secret in [*SECRETS, BODY, "jane.doe@example.org"] if "\n" not in secret]
    for text in outputs:
        assert [secret for secret in hidden if secret in text] == []
    assert "redacted" in "".join(outputs)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_diagnosis_stays_the_same(case: Path) -> None:
    plain, masked = load_model().diagnose(case), load_model().diagnose(case, redact=True)
    assert json.dumps(plain.to_dict()) == json.dumps(masked.to_dict())
