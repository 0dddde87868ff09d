"""The model file: a folder with ``model.bin`` (arrays, no code) and ``card.json`` (what it is and how good).

``model.bin`` is `MAGIC`, the length of a JSON header, the header, and arrays; the header says where each array lies.
Arrays are used where they lie: nothing is unpacked, and nothing in the file is ever executed. The card's checksum must
match, and every place and length is checked before use; weights are checked as they are used (`Part.scores`). Equal
arrays, such as the vocabulary that two parts share, are stored once.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddpclassify.model.answers import Parts
from ddpclassify.model.linear import Columns, Part
from ddpclassify.model.words import Words
from ddpclassify.types import InputError

FORMAT = 2
"""Bump when a reader of the old format would misread the new one, or the other way round."""

MAGIC = b"ddpmodel"
_PARTS = ("cause", "category", "reason", "scope", "rank")
_VOCABULARIES = ("terms", "names")
_WORDS = {"text": "B", "ends": "I", "slots": "I"}
_ARRAYS = {  # name → type code of `array`
    **{f"{words}.{key}": kind for words in _VOCABULARIES for key, kind in _WORDS.items()},
    **{"idf": "d", "starts": "I", "outputs": "H", "values": "f", "intercept": "d"},
}
_MAX_BYTES = 64 << 20
REFUSED = (InputError, ValueError, KeyError, TypeError, LookupError, AttributeError, struct.error, RecursionError)
"""What reading a damaged model file may raise."""


def pack(parts: Parts) -> bytes:
    """Return the bytes of ``model.bin``; equal models give equal bytes."""
    header: dict[str, Any] = {}
    body = bytearray()
    places: dict[tuple[str, bytes], list[int]] = {}
    for name in _PARTS:
        part: Part = getattr(parts, name)
        header[name] = {"classes": list(part.classes), "temperature": float(part.temperature), "arrays": {}}
        for key, values in _arrays(part).items():
            data = _little(array(_ARRAYS[key], values)).tobytes()
            if (_ARRAYS[key], data) not in places:
                places[_ARRAYS[key], data] = [len(body), len(values)]
                body += data + bytes(-len(data) % 8)
            header[name]["arrays"][key] = places[_ARRAYS[key], data]
    head = json.dumps(header).encode()
    head += b" " * (-(len(MAGIC) + 8 + len(head)) % 8)
    return MAGIC + struct.pack("<Q", len(head)) + head + body


def _arrays(part: Part) -> dict[str, Sequence[Any]]:
    out: dict[str, Sequence[Any]] = {}
    for key, found in (("terms", part.terms), ("names", part.names)):
        words = found if isinstance(found, Words) else Words.of(list(found))
        out |= {f"{key}.text": words.text, f"{key}.ends": words.ends, f"{key}.slots": words.slots}
    weights = {"starts": part.coef.starts, "outputs": part.coef.outputs, "values": part.coef.values}
    return {**out, "idf": list(part.idf), **weights, "intercept": list(part.intercept)}


def _little(values: array[Any]) -> array[Any]:
    """Turn an array's bytes from this machine's order to the file's, or back."""
    if sys.byteorder == "big":
        values.byteswap()
    return values


def save(parts: Parts, card: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write a model folder; each file gets its name only when whole. Returns the card with its checksum."""
    folder.mkdir(parents=True, exist_ok=True)
    data = pack(parts)
    card = {**card, "format": FORMAT, "sha256": hashlib.sha256(data).hexdigest()}
    for name, content in (("model.bin", data), ("card.json", json.dumps(card, indent=1).encode() + b"\n")):
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.write_bytes(content)
        temporary.replace(folder / name)
    return card


def load(folder: Path) -> tuple[Parts, dict[str, Any]]:
    """Read a model folder.

    Raises
    ------
    InputError : missing, damaged, of another format, or not what the format allows
    """
    try:
        card = json.loads(_bytes(folder / "card.json"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder}: no readable model: {error}") from error
    if (
        not isinstance(card, dict)
        or not isinstance(card.get("format"), int)
        or not isinstance(card.get("threshold", 0.0), (int, float))
    ):
        raise InputError(f"{folder}: card.json is not a model card")
    if card["format"] != FORMAT:
        newer = card["format"] > FORMAT
        raise InputError(
            f"{folder}: model format {card['format']}, and this program reads {FORMAT}; "
            + ("upgrade ddpclassify" if newer else "train the model anew with `ddpclassify train`")
        )
    try:
        data = _bytes(folder / "model.bin")
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no readable model: {error}") from error
    if hashlib.sha256(data).hexdigest() != card.get("sha256"):
        raise InputError(f"{folder}: model.bin does not match the checksum in card.json")
    try:
        return _unpack(data), card
    except REFUSED as error:
        raise InputError(f"{folder}: damaged model: {error}") from error


def _bytes(path: Path) -> bytes:
    """Read a file of a model; one that has no end, or none soon, is refused."""
    if not path.is_file():
        raise ValueError(f"{path.name} is not a file" if path.exists() else f"there is no {path.name}")
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"{path.name} is too large")
    return path.read_bytes()


def _unpack(data: bytes) -> Parts:
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("not a model file")
    start = len(MAGIC) + 8
    body = start + struct.unpack_from("<Q", data, len(MAGIC))[0]
    header = json.loads(data[start:body])
    if set(header) != set(_PARTS):
        raise ValueError("unexpected parts")
    rest = memoryview(data)[body:]
    return Parts(**{name: _part(name, header[name], rest) for name in _PARTS})


def _part(name: str, head: dict[str, Any], body: memoryview) -> Part:
    arrays = {key: _array(body, kind, *head["arrays"][key]) for key, kind in _ARRAYS.items()}
    terms, names = (Words(*(arrays[f"{key}.{a}"] for a in _WORDS)) for key in _VOCABULARIES)
    classes, temperature = tuple(head["classes"]), head["temperature"]
    outputs = len(arrays["intercept"])
    fits = (
        all(isinstance(c, str) for c in classes)
        and isinstance(temperature, float)
        and 1e-6 < temperature < 1e6
        and outputs in (len(classes), len(classes) - 1 if len(classes) == 2 else -1)
        and all(len(w.ends) and len(w.slots) & (len(w.slots) - 1) == 0 < len(w.slots) for w in (terms, names))
        and len(arrays["idf"]) == len(terms)
        and len(arrays["starts"]) == len(terms) + len(names) + 1
        and len(arrays["outputs"]) == len(arrays["values"]) == arrays["starts"][-1]
    )
    if not fits:
        raise ValueError(f"{name}: shapes disagree")
    coef = Columns(arrays["starts"], arrays["outputs"], arrays["values"])
    return Part(terms, names, arrays["idf"], coef, arrays["intercept"], classes, temperature)


def _array(body: memoryview, kind: str, start: int, length: int) -> Any:
    size = length * array(kind).itemsize
    if not 0 <= start <= start + size <= len(body):
        raise ValueError("an array outside the file")
    view: Any = body[start : start + size]
    return view.cast(kind) if sys.byteorder == "little" else _little(array(kind, view.tobytes()))
