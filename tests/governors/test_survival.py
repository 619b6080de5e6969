"""Survival: products of confidence, and acceptance history in its stead, from the request to the profile."""

from __future__ import annotations

import math

import pytest

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
