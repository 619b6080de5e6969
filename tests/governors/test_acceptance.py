"""Acceptance by position: conditional against unconditional, censoring, forgetting."""

from __future__ import annotations

import numpy as np
import pytest

from governors.acceptance import PositionAcceptance, conditional_of
from tests.governors.observations import outcome


def test_conditional_of_unconditional() -> None:
    assert conditional_of((0.8, 0.6, 0.3), 3) == pytest.approx([0.8, 0.75, 0.5])
    assert conditional_of((0.8, 0.4), 4) == pytest.approx([0.8, 0.5, 0.5, 0.5])
    assert conditional_of((0.8, 0.0, 0.0), 3).tolist() == [0.8, 0.0, 0.0]
    assert np.isnan(conditional_of((), 2)).all()
    assert conditional_of((0.5,), 0).shape == (0,)


def test_counts_only_the_positions_that_were_reached() -> None:
    estimate = PositionAcceptance((), 4, window_steps=1_000_000, prior_weight=0.0)
    estimate.observe(outcome([4, 2, 0], [1, 2, 0]))
    # Position 0: both accepted. Position 1: reached by both, accepted by one. Positions 2, 3: never reached,
    # the first request was rejected before them and the second had no window there.
    assert estimate.conditional().tolist() == pytest.approx([1.0, 0.5, 0.5, 0.5], rel=1e-5)
    assert estimate.unconditional().tolist() == pytest.approx([1.0, 0.5, 0.25, 0.125], rel=1e-5)


def test_nothing_known_is_nan() -> None:
    estimate = PositionAcceptance((), 2, window_steps=8, prior_weight=4.0)
    assert np.isnan(estimate.conditional()).all()
    estimate.observe(outcome([], []))
    assert np.isnan(estimate.unconditional()).all()


def test_an_unseen_position_is_neither_decayed_nor_rejected() -> None:
    estimate = PositionAcceptance((0.9, 0.81), 2, window_steps=4, prior_weight=1.0)
    for _ in range(50):
        estimate.observe(outcome([2], [2]))
    before = estimate.conditional()
    for _ in range(50):
        estimate.observe(outcome([1], [1]))
    assert estimate.conditional()[1] == before[1]


def test_forgets_with_its_window() -> None:
    estimate = PositionAcceptance((), 1, window_steps=10, prior_weight=0.0)
    for _ in range(200):
        estimate.observe(outcome([1], [1]))
    for _ in range(10):
        estimate.observe(outcome([1], [0]))
    assert estimate.conditional()[0] == pytest.approx(0.9**10, rel=1e-6)
