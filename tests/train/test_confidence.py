"""What held-out answers say of the confidence."""

from __future__ import annotations

import numpy as np
import pytest

from ddpclassify.evaluation.calibration import reliability
from ddpclassify.train.confidence import LEAST_RIGHT, chow_threshold


def test_below_the_threshold_answers_are_too_often_wrong() -> None:
    confidence = np.array([0.95, 0.9, 0.8, 0.6, 0.5, 0.3, 0.2, 0.1])
    right = np.array([1, 1, 0, 1, 1, 0, 0, 1.0])
    assert chow_threshold(confidence, right) == 0.4


def test_answers_that_are_all_right_don_t_raise_the_threshold() -> None:
    """A small corpus that is easily told apart must not make every later log unknown."""
    assert chow_threshold(np.array([0.9999, 0.9998]), np.ones(2)) == LEAST_RIGHT
    assert chow_threshold(np.array([0.9, 0.3]), np.ones(2)) == 0.3


def test_perfect_calibration_has_no_error_and_overconfidence_has() -> None:
    ten = np.full(10, 0.7)
    right = np.array([1, 1, 1, 1, 1, 1, 1, 0, 0, 0.0])
    assert reliability(ten, right)["expected_calibration_error"] == pytest.approx(0)
    over = reliability(np.full(10, 0.95), right)
    assert over["expected_calibration_error"] == pytest.approx(0.25)
    (bin,) = over["bins"]
    assert (bin["logs"], bin["right"]) == (10, pytest.approx(0.7))
    assert over["confident"][-1] == {"from": 0.95, "share": 1.0, "wrong": pytest.approx(0.3)}
