"""Acceptance by position: conditional against unconditional, censoring, forgetting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governors.acceptance import PositionAcceptance, conditional_of, counts_by_position
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
    assert estimate.conditional() == pytest.approx([1.0, 0.5, 0.5, 0.5], rel=1e-5)
    assert estimate.unconditional() == pytest.approx([1.0, 0.5, 0.25, 0.125], rel=1e-5)


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


STEPS = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6), max_size=8)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_estimates_are_the_formula_to_the_last_bit(steps: list[list[tuple[int, int]]]) -> None:
    """Four positions, each a sum over the requests that reached it, with the sums before it faded once."""
    prior, k_max, window_steps, weight = (0.8, 0.5), 4, 3, 2.0
    estimate = PositionAcceptance(prior, k_max, window_steps, weight)
    counted = [(0.0, 0.0)] * k_max
    keep = 1.0 - 1.0 / window_steps
    for step in steps:
        pairs = [(verified, min(accepted, verified)) for verified, accepted in step]
        estimate.observe(outcome([v for v, _ in pairs], [a for _, a in pairs]))
        for position, (reached, accepted) in enumerate(counted):
            now_reached = sum(min(v, a + 1) > position for v, a in pairs)
            if now_reached:
                now_accepted = sum(a > position for _, a in pairs)
                counted[position] = (reached * keep + now_reached, accepted * keep + now_accepted)
    priors = conditional_of(prior, k_max).tolist()
    expected = [(a + weight * p) / (r + weight) for (r, a), p in zip(counted, priors, strict=True)]
    assert estimate.conditional() == expected
    assert estimate.unconditional() == np.cumprod(expected).tolist()


@given(st.lists(st.integers(0, 5), max_size=12))
def test_counts_above_each_position(counts: list[int]) -> None:
    above = counts_by_position(np.array(counts, np.int64), 5)
    assert above == [sum(count > position for count in counts) for position in range(5)]
