"""The fuzzing targets hold for a few inputs each, and for every input that once broke one (`inputs/`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpclassify.events.statements import STATEMENTS
from ddpclassify.ranks.forms import FORMS

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))
from targets import TARGETS

EXAMPLES = [row.example for row in STATEMENTS] + [row.example for row in FORMS]
PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(EXAMPLES).map(str.encode),
    st.sampled_from(
        [b"\n", b" ", b"\r", b"\x1b[0m", b"[rank3]: ", b"9" * 4400, b"Traceback (most recent call last):\n"]
    ),
)
LOGS = st.lists(PIECES, max_size=40).map(b"".join)


@pytest.mark.parametrize("target", [pytest.param(f, id=name) for name, f in TARGETS.items()])
def test_target_holds(target: Callable[[bytes], None]) -> None:
    settings(max_examples=60, deadline=None)(given(LOGS)(target))()
