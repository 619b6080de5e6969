"""Survival: products of confidence, and acceptance history in its stead, from the request to the profile."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governors.acceptance import conditional_of
from governors.contract import StepObservation
from governors.survival import NOT_IN_HAND, SurvivalModel
from tests.governors.observations import observation

NAN = math.nan


def _model(acceptance: tuple[float, ...] = (0.8, 0.4), weight: float = 8.0) -> SurvivalModel:
    return SurvivalModel(acceptance, k_max=2, unknown=0.7, weight=weight)


def test_products_of_confidence() -> None:
    survival = _model().survival(observation(batch=2, k_max=2, confidence=[[0.9, 0.5], [0.4, 1.0]]))
    assert survival.table.tolist() == [[0.9, 0.45], [0.4, 0.4]]
    assert not survival.blind


def test_confidence_is_cut_to_probabilities() -> None:
    survival = _model().survival(observation(batch=2, k_max=2, confidence=[[1.5, 0.5], [-0.2, 0.9]]))
    assert survival.table.tolist() == [[1.0, 0.5], [0.0, 0.0]]


def test_no_draft_has_no_survival_and_needs_no_confidence() -> None:
    survival = _model().survival(
        observation(batch=2, k_max=2, drafts=[1, 0], confidence=[[0.9, NAN], [NAN, NAN]])
    )
    assert survival.table.tolist() == [[0.9, NOT_IN_HAND], [NOT_IN_HAND, NOT_IN_HAND]]
    assert not survival.blind


def test_without_any_history_the_profile_stands_in() -> None:
    survival = _model().survival(observation(k_max=2, confidence=[[NAN, NAN]]))
    assert survival.table.tolist() == [pytest.approx([0.8, 0.4])]
    assert survival.blind


def test_without_a_profile_too_the_option_stands_in() -> None:
    survival = _model(acceptance=()).survival(observation(k_max=2))
    assert survival.table.tolist() == [pytest.approx([0.7, 0.49])]


def test_history_is_shrunk_from_request_to_batch_to_profile() -> None:
    seen = observation(batch=2, k_max=2, reached=[[8, 4], [0, 0]], accepted=[[4, 4], [0, 0]])
    table = _model(weight=8.0).survival(seen).table
    batch = [(4 + 8 * 0.8) / 16, (4 + 8 * 0.5) / 12]
    own = [(4 + 8 * batch[0]) / 16, (4 + 8 * batch[1]) / 12]
    assert table[0].tolist() == pytest.approx([own[0], own[0] * own[1]])
    assert table[1].tolist() == pytest.approx([batch[0], batch[0] * batch[1]])  # a new request: the batch's


def test_one_missing_confidence_is_filled_alone() -> None:
    survival = _model().survival(observation(batch=2, k_max=2, confidence=[[0.9, NAN], [0.6, 0.5]]))
    assert survival.table[0].tolist() == pytest.approx([0.9, 0.45])
    assert survival.table[1].tolist() == [0.6, 0.3]


def test_the_observation_is_left_alone() -> None:
    seen = observation(batch=1, k_max=2, confidence=[[2.0, NAN]])
    _model().survival(seen)
    assert seen.confidence[0, 0] == 2.0
    assert math.isnan(seen.confidence[0, 1])


def test_nothing_to_survive() -> None:
    assert _model().survival(observation(batch=0, k_max=2)).table.shape == (0, 2)
    flat = SurvivalModel((), k_max=0, unknown=0.7, weight=8.0).survival(observation(batch=3, k_max=0))
    assert flat.table.shape == (3, 0)


@st.composite
def observations(draw: st.DrawFn) -> StepObservation:
    """Up to 5 requests and 3 positions; confidence known everywhere, nowhere, or here and there."""
    batch, k_max = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    chances = draw(st.sampled_from([st.just(NAN), st.floats(-0.5, 1.5), st.floats(0, 1) | st.just(NAN)]))

    def table(entry: st.SearchStrategy[float]) -> list[list[float]]:
        row = st.lists(entry, min_size=k_max, max_size=k_max)
        return draw(st.lists(row, min_size=batch, max_size=batch))

    reached = table(st.integers(0, 500))
    return observation(
        batch=batch,
        k_max=k_max,
        drafts=draw(st.lists(st.integers(0, k_max), min_size=batch, max_size=batch)),
        confidence=table(chances),
        reached=reached or None,
        accepted=[[draw(st.integers(0, int(count))) for count in row] for row in reached] or None,
    )


@settings(max_examples=400, deadline=None)
@given(observations())
def test_survival_is_the_formula_to_the_last_bit(seen: StepObservation) -> None:
    acceptance, weight, k_max = (0.8, 0.4), 8.0, seen.limits.k_max
    prior = [0.7 if math.isnan(chance) else chance for chance in conditional_of(acceptance, k_max).tolist()]
    reached, accepted = seen.history.reached.astype(float), seen.history.accepted.astype(float)
    blind, expected = False, []
    for request, hand in enumerate(seen.drafts_in_hand.tolist()):
        survives, row = 1.0, []
        for position in range(hand):
            batch = (sum(accepted[:, position].tolist()) + weight * prior[position]) / (
                sum(reached[:, position].tolist()) + weight
            )
            chance = float(seen.confidence[request, position])
            if math.isnan(chance):
                blind = True
                chance = (accepted[request, position] + weight * batch) / (
                    reached[request, position] + weight
                )
            survives *= min(max(chance, 0.0), 1.0)
            row.append(survives)
        expected.append(row + [NOT_IN_HAND] * (k_max - hand))
    survival = SurvivalModel(acceptance, k_max, unknown=0.7, weight=weight).survival(seen)
    assert survival.table.tolist() == expected
    assert (survival.blind, survival.drafts) == (blind, int(seen.drafts_in_hand.sum()))
