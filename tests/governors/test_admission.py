"""Admission: exactly what a plain reading of Algorithm 1 gives, ties, holes and stairs included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from governors.admission import Admission, Stop, first_peak, highest
from governors.survival import NOT_IN_HAND

Case = tuple[NDArray[np.float64], list[int], NDArray[np.float64]]

CHANCES = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0.0, 1.0))
SECONDS = st.one_of(st.sampled_from([0.01, 0.02]), st.floats(1e-4, 1.0))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Survival in single precision, up to 6 requests with up to 4 positions, any positive cost table; rows or
    columns lie together in memory."""
    batch, k_max = draw(st.integers(0, 6)), draw(st.integers(0, 4))
    drafts = draw(st.lists(st.integers(0, k_max), min_size=batch, max_size=batch))
    table = np.full((batch, k_max), NOT_IN_HAND)
    for row, hand in enumerate(drafts):
        chances = draw(st.lists(CHANCES, min_size=hand, max_size=hand))
        table[row, :hand] = np.multiply.accumulate(np.array(chances)).astype(np.float32) if hand else []
    total = sum(drafts)
    seconds = draw(st.lists(SECONDS, min_size=total + 1, max_size=total + 1))
    return np.array(table, order=draw(st.sampled_from(["C", "F"]))), drafts, np.array(seconds)


def reference(case: Case, early_stop: bool) -> list[int]:
    """Windows by the book: a sorted list, a running sum, one comparison at a time."""
    table, drafts, seconds = case
    ranked = sorted(
        (-float(table[row, position]), row, position)
        for row, hand in enumerate(drafts)
        for position in range(hand)
    )
    tau = float(len(drafts))
    best, best_theta, before = 0, tau / seconds[0], tau / seconds[0]
    for count, (negative, _, _) in enumerate(ranked, start=1):
        tau += -negative
        theta = tau / seconds[count]
        if early_stop and theta <= before:
            break
        if theta > best_theta:
            best, best_theta = count, theta
        before = theta
    windows = [0] * len(drafts)
    for _, row, _ in ranked[:best]:
        windows[row] += 1
    return windows


@settings(max_examples=400, deadline=None)
@given(cases())
def test_argmax_is_exact(case: Case) -> None:
    table, drafts, seconds = case
    windows = Admission(highest).windows(table, sum(drafts), seconds)
    assert windows.tolist() == reference(case, early_stop=False)
    assert (windows <= np.array(drafts, dtype=int)).all()


@settings(max_examples=400, deadline=None)
@given(cases())
def test_early_stop_is_exact(case: Case) -> None:
    table, drafts, seconds = case
    windows = Admission(first_peak).windows(table, sum(drafts), seconds)
    assert windows.tolist() == reference(case, early_stop=True)


@settings(max_examples=200, deadline=None)
@given(cases())
def test_windows_are_prefixes_of_the_likeliest(case: Case) -> None:
    """No draft left out is likelier than one let in: the global choice and the prefixes are the same."""
    table, drafts, seconds = case
    windows = Admission(highest).windows(table, sum(drafts), seconds)
    admitted = [table[row, : windows[row]] for row in range(len(drafts))]
    refused = [table[row, windows[row] : hand] for row, hand in enumerate(drafts)]
    lowest = min((float(row.min()) for row in admitted if len(row)), default=1.0)
    assert all(float(row.max()) <= lowest for row in refused if len(row))


@pytest.mark.parametrize(("stop", "early"), [(highest, False), (first_peak, True)])
@settings(max_examples=400, deadline=None)
@given(cases(), cases(), CHANCES)
def test_ranking_a_part_changes_nothing(
    stop: Stop, early: bool, first: Case, then: Case, floor: float
) -> None:
    admission = Admission(stop, floor)
    for case in (first, then):
        table, drafts, seconds = case
        assert admission.windows(table, sum(drafts), seconds).tolist() == reference(case, early)


@pytest.mark.parametrize("stop", [highest, first_peak])
def test_a_large_batch_is_ranked_in_part_and_chosen_as_if_in_whole(stop: Stop) -> None:
    """Acceptance, cost and batch drift and jump; the floor of a step is never that of its own choice."""
    random = np.random.default_rng(6)
    admission, floors = Admission(stop), set()
    for step in range(120):
        batch = 256 - 40 * (step // 50)
        chances = random.beta(3 + 0.02 * step, 2, (batch, 8))
        table = np.asarray(np.multiply.accumulate(chances, axis=1), dtype=np.float64)
        slope = 0.00001 * (1 + step % 7)
        seconds = 0.006 + slope * np.arange(8 * batch + 1) + 0.0001 * (np.arange(8 * batch + 1) // 64)
        windows = admission.windows(table, 8 * batch, seconds)
        assert windows.tolist() == Admission(stop).windows(table, 8 * batch, seconds).tolist()
        floors.add(admission._floor)
    assert len(floors) > 10


def test_a_batch_as_large_as_they_come() -> None:
    random = np.random.default_rng(5)
    chances = random.random((256, 8)).round(2)  # rounded: many ties
    table = np.asarray(np.multiply.accumulate(chances, axis=1), dtype=np.float64)
    seconds = np.asarray(0.005 + 0.00002 * (np.arange(2049) // 64 * 64), dtype=np.float64)
    case = (table, [8] * 256, seconds)
    for stop, early in ((highest, False), (first_peak, True)):
        assert Admission(stop).windows(table, 2048, seconds).tolist() == reference(case, early)


def test_early_stop_stalls_on_a_stair_that_the_argmax_climbs() -> None:
    """Two requests, survival .9 and .8 each: Theta falls at n=3, the next stair's first, and peaks at n=6."""
    table = np.array([[0.9, 0.8], [0.9, 0.8]])
    seconds = np.array([0.010, 0.016, 0.016, 0.016, 0.016])
    theta = [2 / 0.010, 2.9 / 0.016, 3.8 / 0.016, 4.6 / 0.016, 5.4 / 0.016]
    assert theta[1] < theta[0] < max(theta) == theta[4]
    assert Admission(first_peak).windows(table, 4, seconds).tolist() == [0, 0]
    assert Admission(highest).windows(table, 4, seconds).tolist() == [2, 2]


@pytest.mark.parametrize("stop", [highest, first_peak])
def test_a_draft_sure_to_be_rejected_is_never_admitted_at_a_rising_cost(stop: Stop) -> None:
    windows = Admission(stop).windows(np.array([[1.0, 0.0]]), 2, np.array([1.0, 1.1, 1.1]))
    assert windows.tolist() == [1]
