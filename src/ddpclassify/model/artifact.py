"""The model file: a folder with ``model.npz`` (arrays, no code) and ``card.json`` (what it is and how good).

Nothing in it is executed on loading: arrays are read with pickling off, member names, types, shapes and sizes are
checked against what the format allows before a byte of data is inflated, and the card's checksum must match.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ddpclassify.model.answers import Parts
from ddpclassify.model.linear import Part
from ddpclassify.types import InputError

FORMAT = 1
"""Bump when a reader of the old format would misread the new one."""

_PARTS = ("cause", "category", "reason", "scope", "rank")
_FIELDS = {
    "terms": "u1",
    "names": "u1",
    "classes": "u1",
    "idf": "f8",
    "coef": "f4",
    "intercept": "f8",
    "temperature": "f8",
}
_MAX_BYTES = 256 << 20


def pack(parts: Parts) -> bytes:
    """Return the bytes of ``model.npz``; equal models give equal bytes."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name in _PARTS:
        part: Part = getattr(parts, name)
        for key, words in (("terms", part.terms), ("names", part.names), ("classes", part.classes)):
            arrays[f"{name}.{key}"] = np.frombuffer("\n".join(words).encode(), np.uint8)
        arrays[f"{name}.idf"] = part.idf
        arrays[f"{name}.coef"] = part.coef
        arrays[f"{name}.intercept"] = part.intercept
        arrays[f"{name}.temperature"] = np.array([part.temperature])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def save(parts: Parts, card: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write a model folder; each file gets its name only when whole. Returns the card with its checksum."""
    folder.mkdir(parents=True, exist_ok=True)
    data = pack(parts)
    card = {"format": FORMAT, **card, "sha256": hashlib.sha256(data).hexdigest()}
    for name, content in (("model.npz", data), ("card.json", json.dumps(card, indent=1).encode() + b"\n")):
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.write_bytes(content)
        temporary.replace(folder / name)
    return card


def load(folder: Path) -> tuple[Parts, dict[str, Any]]:
    """Read a model folder.

    Raises
    ------
    InputError : missing, damaged, of a newer format, or not what the format allows
    """
    try:
        card = json.loads((folder / "card.json").read_text("utf-8"))
        data = (folder / "model.npz").read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no readable model: {error}") from error
    if not isinstance(card, dict) or not isinstance(card.get("format"), int):
        raise InputError(f"{folder}: card.json is not a model card")
    if card["format"] > FORMAT:
        raise InputError(
            f"{folder}: model format {card['format']} is newer than this program reads ({FORMAT}); upgrade ddpclassify"
        )
    if hashlib.sha256(data).hexdigest() != card.get("sha256"):
        raise InputError(f"{folder}: model.npz does not match the checksum in card.json")
    try:
        return _unpack(data), card
    except (ValueError, KeyError, zipfile.BadZipFile, OSError, EOFError) as error:
        raise InputError(f"{folder}: damaged model: {error}") from error


def _unpack(data: bytes) -> Parts:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        wanted = {f"{part}.{field}.npy": kind for part in _PARTS for field, kind in _FIELDS.items()}
        found = {info.filename: info for info in archive.infolist()}
        if set(found) != set(wanted) or len(archive.infolist()) != len(wanted):
            raise ValueError("unexpected members")
        if sum(info.file_size for info in found.values()) > _MAX_BYTES:
            raise ValueError("too large")
        arrays = {}
        for name, kind in wanted.items():
            with archive.open(name) as member:
                array = np.lib.format.read_array(member, allow_pickle=False, max_header_size=10_000)
            if array.dtype != np.dtype(kind) or array.ndim > 2 or (kind != "u1" and not np.isfinite(array).all()):
                raise ValueError(f"{name}: unexpected type, shape or values")
            arrays[name.removesuffix(".npy")] = array
    return Parts(**{part: _part(part, arrays) for part in _PARTS})


def _part(name: str, arrays: dict[str, Any]) -> Part:
    words = {key: _words(arrays[f"{name}.{key}"]) for key in ("terms", "names", "classes")}
    part = Part(
        {w: i for i, w in enumerate(words["terms"])},
        {w: i for i, w in enumerate(words["names"])},
        arrays[f"{name}.idf"],
        arrays[f"{name}.coef"],
        arrays[f"{name}.intercept"],
        tuple(words["classes"]),
        float(arrays[f"{name}.temperature"].reshape(-1)[0]),
    )
    outputs = part.coef.shape[0]
    if (
        outputs not in (len(part.classes), len(part.classes) - 1 if len(part.classes) == 2 else -1)
        or part.coef.shape != (outputs, len(part.terms) + len(part.names))
        or part.idf.shape != (len(part.terms),)
        or part.intercept.shape != (outputs,)
        or part.temperature <= 0
    ):
        raise ValueError(f"{name}: shapes disagree")
    return part


def _words(array: Any) -> list[str]:
    text = array.tobytes().decode("utf-8")
    return text.split("\n") if text else []
