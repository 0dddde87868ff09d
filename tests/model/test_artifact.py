"""The model file: small, exact, the same bytes for the same model, and refused when anything in it is off."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpclassify.model import load, save
from ddpclassify.model.answers import Parts
from ddpclassify.model.artifact import MAGIC, pack
from ddpclassify.model.linear import Columns, Part
from ddpclassify.model.words import Words
from ddpclassify.types import InputError

DEFAULT = Path(__file__).parents[2] / "models" / "default"
TERMS = {"w:out": 0, "w:of memory": 1, "q:é": 2}
NAMES = {"late": 0, "index=1": 1}


def part(outputs: int, classes: tuple[str, ...], seed: int = 0, **changes: Any) -> Part:
    dense = np.random.default_rng(seed).normal(size=(outputs, len(TERMS) + len(NAMES))).astype(np.float32)
    dense[0, 1] = 0
    fields: dict[str, Any] = {
        "terms": TERMS,
        "names": NAMES,
        "idf": np.array([1.5, 2.5, 1.0]),
        "coef": Columns.of(dense),
    }
    fields |= {"intercept": np.linspace(-1, 1, outputs), "classes": classes, "temperature": 0.7}
    return Part(**{**fields, **changes})


def parts(**changes: Any) -> Parts:
    two, three = part(1, ("no", "yes"), **changes), part(3, ("a", "b", "c"), 1)
    return Parts(two, three, three, three, two)


def test_a_saved_model_gives_the_same_answers(tmp_path: Path) -> None:
    made = parts()
    save(made, {"name": "mine"}, tmp_path)
    read, card = load(tmp_path)
    assert card["name"] == "mine"
    for name in ("cause", "category", "reason", "scope", "rank"):
        old, new = getattr(made, name), getattr(read, name)
        assert (list(new.terms), list(new.names), new.classes) == (list(TERMS), list(NAMES), old.classes)
        asked = ["w:out", "w:out", "q:é", "never seen"], {"late": 0.5, "nothing": 1.0}
        assert new.probabilities(*asked) == pytest.approx(old.probabilities(*asked), abs=1e-12)
        assert dict(new.weights(*asked, 0)) == pytest.approx(dict(old.weights(*asked, 0)))
    assert pack(read) == pack(made)


def test_scores_are_those_of_the_textbook() -> None:
    weights = np.array([[1.0, 2.0, 0.0, 4.0, 5.0]], np.float32)
    got = part(1, ("no", "yes"), coef=Columns.of(weights), intercept=[0.25]).scores(
        ["w:out", "w:of memory"] * 2, {"late": 3}
    )
    tfidf = (1 + np.log(2)) * np.array([1.5, 2.5])
    assert got == pytest.approx([tfidf / np.linalg.norm(tfidf) @ [1.0, 2.0] + 3 * 4.0 + 0.25])


def test_the_shipped_model_is_small() -> None:
    assert sum(path.stat().st_size for path in DEFAULT.iterdir()) < 8_000_000


@given(st.sets(st.text(min_size=1), max_size=200), st.lists(st.text(), max_size=20))
def test_words_are_found_and_others_are_not(words: set[str], others: list[str]) -> None:
    known = [w for w in sorted(words) if w.encode("utf-8", "replace").decode() == w]
    table = Words.of(known)
    assert {w: table.get(w) for w in known} == {w: i for i, w in enumerate(known)}
    assert all((table.get(w) is None) == (w not in known) for w in others if w.encode("utf-8", "replace").decode() == w)


def rewrite(folder: Path, data: bytes) -> None:
    """Change the model and, as an attacker would, the checksum with it."""
    (folder / "model.bin").write_bytes(data)
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps({**card, "sha256": hashlib.sha256(data).hexdigest()}))


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    save(parts(), {}, tmp_path)
    data = bytearray((tmp_path / "model.bin").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model.bin").write_bytes(data)
    with pytest.raises(InputError, match="checksum"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ({"format": 99}, "newer|upgrade"),
        ({"format": 1}, "train the model anew"),
        ([], "not a model card"),
        ({}, "card"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, card: object, message: str) -> None:
    save(parts(), {}, tmp_path)
    (tmp_path / "card.json").write_text(json.dumps(card))
    with pytest.raises(InputError, match=message):
        load(tmp_path)


def test_no_damage_crashes_or_hangs(tmp_path: Path) -> None:
    save(parts(), {}, tmp_path)
    good = (tmp_path / "model.bin").read_bytes()
    rng = random.Random(0)
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            bad[rng.randrange(len(bad))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        rewrite(tmp_path, bytes(bad[: rng.choice([len(bad), len(bad), rng.randrange(len(bad))])]))
        try:
            read, _ = load(tmp_path)
            for each in (read.cause, read.category):
                assert all(0 <= p <= 1 for p in each.probabilities(["w:out", "w:of memory"], {"late": 1.0}))
        except InputError as error:
            assert "\n" not in str(error)


def test_weights_that_are_no_numbers_give_one_line(tmp_path: Path) -> None:
    save(parts(intercept=[float("nan")]), {}, tmp_path)
    with pytest.raises(InputError, match="not finite"):
        load(tmp_path)[0].cause.probabilities([], {})


def test_a_header_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    save(parts(), {}, tmp_path)
    rewrite(tmp_path, MAGIC + struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(InputError, match="damaged model"):
        load(tmp_path)
