"""What fuzzing holds the program to: each target takes any bytes, and must neither raise nor break its promise.

`fuzz.py` drives them by coverage; `tests/hostile/test_targets.py` tries a few inputs each, to keep them alive.
"""

from __future__ import annotations

import io
import json
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path

from ddpclassify.api import load_model
from ddpclassify.events import extract
from ddpclassify.fold import fold
from ddpclassify.fold.normalise import skeleton
from ddpclassify.model.answers import Parts
from ddpclassify.model.artifact import MAGIC, REFUSED, _unpack, pack
from ddpclassify.model.linear import Columns, Part
from ddpclassify.page import page
from ddpclassify.ranks import attribute
from ddpclassify.read import read
from ddpclassify.read.blocks import from_pieces
from ddpclassify.read.scan import regex_scanner, scan, scanner
from ddpclassify.read.sources import _CODECS, _unpacked, _utf8
from ddpclassify.redact import mask, mask_pieces, redact
from ddpclassify.report import json_report, text_report
from ddpclassify.split import _lines, split
from ddpclassify.types import Excerpt, InputError, RawLine, SourceFile

_SIZE = 96  # bytes of a block, so that short inputs have many cuts
_FILES = ("rank0.log", "node2/attempt_1/3/stderr.log", "x.log")


def _safe(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


def reader(data: bytes) -> None:
    """Cut into blocks anywhere, all scanners keep the same lines, and every line is counted."""
    pieces = [data[i : i + 37] for i in range(0, len(data), 37)]
    lines, n_lines, n_bytes = scan(0, from_pieces(pieces), scanner(), _SIZE)
    assert n_lines == data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    assert n_bytes == len(data)
    assert (lines, n_lines, n_bytes) == scan(0, from_pieces(pieces), regex_scanner(), _SIZE)
    assert all(1 <= line.number <= n_lines and "\n" not in line.text and "\x1b" not in line.text for line in lines)


def packed(data: bytes) -> None:
    """Whatever calls itself compressed is read as far as it goes, or refused in one line."""
    magic, unpack = _CODECS[data[0] % len(_CODECS) if data else 0]
    try:
        scan(0, _utf8(_unpacked(unpack(io.BufferedReader(io.BytesIO(magic + data[1:]))), "x")), scanner())
    except InputError as error:
        assert "\n" not in str(error)


def _excerpt(data: bytes) -> Excerpt:
    """Three files whose lines are the input's, each in the file that its first character names."""
    text = data.decode("utf-8", "replace").replace("\r", "")
    lines = [RawLine("ab".find(t[:1]) % 3, i, t) for i, t in enumerate(text.split("\n"), 1)]
    lines.sort(key=lambda line: line.file)
    return Excerpt("x", tuple(SourceFile(f) for f in _FILES), tuple(lines), len(lines), len(data))


def ranks(data: bytes) -> None:
    """Prefixes only take from the left; ranks stay in bounds."""
    log = attribute(_excerpt(data))
    assert all(line.raw.endswith(line.text) for line in log.lines if not line.raw.startswith("{"))
    assert all(0 <= rank < 10**6 for rank in log.facts.ranks_seen)


def tracebacks(data: bytes) -> None:
    """Events stand at lines of the log, and no line is two."""
    excerpt = _excerpt(data)
    events = extract(attribute(excerpt)).events
    numbers = [(e.line.file, e.line.number) for e in events]
    assert numbers == sorted(numbers)
    folded = fold(extract(attribute(excerpt)))
    assert all(f.count >= len(f.events) for f in folded.failures if f.events)


def normaliser(data: bytes) -> None:
    """A skeleton is bounded, one line, and has no more numbers to mask."""
    out = skeleton(data.decode("utf-8", "replace"))
    assert len(out) <= 600
    assert "\n" not in out
    mask(data.decode("utf-8", "replace"))


def reports(data: bytes) -> None:
    """Any log gets its reports, without control codes, and no markup of its own in the page."""
    loaded = load_model()
    excerpt = read(data.split(b"\n"))
    folded, diagnosis = loaded.explain(data.split(b"\n"), redact=bool(len(data) % 2))
    assert _safe(text_report(diagnosis, verbose=True, folded=folded))
    assert _safe(text_report(diagnosis, folded=folded))
    assert json.loads(json_report(diagnosis)) == diagnosis.to_dict()
    html = page([(folded, diagnosis)])
    assert html.count("<script") == page([]).count("<script")
    assert all(1 <= e["line"] <= max(excerpt.n_lines, 1) for e in diagnosis.evidence)


def secrets(data: bytes) -> None:
    """Masking pieces is masking the line, wherever it is cut between words."""
    text = data.decode("utf-8", "replace")
    redact(_excerpt(data))
    fill = from_pieces([data])
    masked = b"".join(piece for piece, _ in mask_pieces(_lines(fill)))
    assert masked.count(b"\n") == data.count(b"\n")
    assert mask(text) is not None


def parts(data: bytes) -> None:
    """Every line of a log is in exactly one part."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "x.log"
        log.write_bytes(data)
        try:
            done = split(str(log), Path(name) / "out", raw=True, numbered=True)
        except InputError as error:
            assert "\n" not in str(error)
            return
        assert sum(part.lines for part in done.parts) == done.lines


def _small() -> bytes:
    """A whole model file of a few words."""
    columns = Columns(array("I", range(8)), array("H", [0] * 7), array("f", [1, -2, 3, 0.5, 1, 1, -1]))
    terms, names = {"w:out": 0, "w:of": 1, "q:é": 2, "k:x": 3}, {"bias": 0, "late": 1, "x": 2}
    part = Part(terms, names, array("d", [1.5, 2, 1, 1]), columns, array("d", [0.25]), ("no", "yes"), 0.7)
    return pack(Parts(part, part, part, part, part))


def model(data: bytes) -> None:
    """A model file is refused in one line, or answers with probabilities.

    The input is a file, or changes to a good one: an offset of two bytes, and the byte to put there.
    """
    if data[:1] != MAGIC[:1]:
        changed = bytearray(_SMALL)
        for at in range(0, len(data) - 2, 3):
            changed[int.from_bytes(data[at : at + 2], "big") % len(changed)] = data[at + 2]
        data = bytes(changed)
    try:
        for part in vars(_unpack(data)).values():
            part.probabilities(["w:out", "w:of"], {"bias": 1.0})
            part.weights(["w:out"], {"bias": 1.0}, 0)
    except REFUSED:
        return


_SMALL = _small()
TARGETS: dict[str, Callable[[bytes], None]] = {
    f.__name__: f for f in (reader, packed, ranks, tracebacks, normaliser, reports, secrets, parts, model)
}
