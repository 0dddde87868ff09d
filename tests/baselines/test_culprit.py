"""The launcher's own word, and the first rank that reports."""

from __future__ import annotations

import pytest

from ddpclassify.baselines import BASELINES

TABLE = """\
[rank1]: Traceback (most recent call last):
[rank1]: RuntimeError: Connection closed by peer
[rank0]: ValueError: bad sample
[E api.py:874] torch/distributed/elastic: failed (exitcode: 1) local_rank: 0 (pid: 11)
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_12:00:00
  host      : n1
  rank      : 4 (local_rank: 0)
  exitcode  : 1 (pid: 11)
"""


@pytest.mark.parametrize(
    ("name", "text", "scope", "ranks"),
    [
        ("launcher", TABLE, "ranks", (4,)),
        ("first", TABLE, "ranks", (1,)),
        ("launcher", "step 1\nTraining complete", "none", ()),
        ("first", "step 1\nTraining complete", "none", ()),
        ("launcher", "subprocess.CalledProcessError: returned non-zero exit status 1.", "unknown", ()),
        ("first", "ValueError: who?", "unknown", ()),
    ],
)
def test_culprit(name: str, text: str, scope: str, ranks: tuple[int, ...]) -> None:
    got = BASELINES[name](text.split("\n"))
    assert (got.category, got.scope, got.culprit_ranks) == ("", scope, ranks)
