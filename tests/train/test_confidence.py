"""What held-out answers say of the confidence."""

from __future__ import annotations

import numpy as np
import pytest

from ddpclassify.train.confidence import chow_threshold, reliability


def test_below_the_threshold_answers_are_too_often_wrong() -> None:
    confidence = np.array([0.95, 0.9, 0.8, 0.6, 0.5, 0.3, 0.2, 0.1])
    right = np.array([1, 1, 0, 1, 1, 0, 0, 1.0])
    assert chow_threshold(confidence, right) == 0.5


def test_perfect_calibration_has_no_error_and_overconfidence_has() -> None:
    ten = np.full(10, 0.7)
    right = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0, 0.0])
    assert reliability(ten, right)["expected_calibration_error"] == pytest.approx(0)
    over = reliability(np.full(10, 0.95), right)
    assert over["expected_calibration_error"] == pytest.approx(0.25)
    (bin,) = over["bins"]
    assert (bin["logs"], bin["right"]) == (10, pytest.approx(0.7))
    assert over["confident"][-1] == {"from": 0.95, "share": 1.0, "wrong": pytest.approx(0.3)}
