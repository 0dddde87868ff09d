"""What is taken for the step that a job has come to."""

from __future__ import annotations

import pytest

from ddpclassify.events import extract
from ddpclassify.ranks import attribute
from ddpclassify.read import read


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("epoch 1 step 300 loss 0.5", 300),
        ("Epoch [2] Iter [40] lr: 0.1", 40),
        ("epoch: 3 | batch: 17 | loss: 0.2", 17),
        ("Epoch 4:  12%|#   | 45/375 [00:10<01:20, 4.1it/s, loss=0.3]", 45),
        ("epoch 7 loss 0.5", 7),
        ("{'loss': 0.5, 'global_step': 1200, 'epoch': 2}", 1200),
        ("step 12", None),  # no sign of training
    ],
)
def test_the_step_goes_before_the_epoch(line: str, step: int | None) -> None:
    progress = extract(attribute(read([line]))).progress
    assert progress.get(None, (None,))[0] == step
