"""Costs: exact at measured points, a staircase below the capture limit; flat tables price nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from governors.contract import DepthLimits
from governors.cost import StaircaseCost, StepGrid, draft_seconds
from tests.governors.profiles import EAGLE, EAGLE_BATCHES, STAIRS

LIMITS = DepthLimits(k_max=5, max_num_seqs=512)


def test_grid_is_exact_at_measured_points() -> None:
    grid = StepGrid(EAGLE, LIMITS)
    assert grid.depths.tolist() == [0, 1, 3, 5]
    for batch, row in zip(EAGLE_BATCHES, EAGLE.step_s, strict=True):
        assert grid.seconds(batch).tolist() == list(row)


def test_grid_is_bilinear_between_them() -> None:
    grid = StepGrid(EAGLE, LIMITS, between=True)
    corners = [EAGLE.step_s[row][column] for row in (2, 3) for column in (1, 2)]
    assert grid.depths.tolist() == [0, 1, 2, 3, 4, 5]
    assert grid.seconds(40)[2] == pytest.approx(sum(corners) / 4, rel=1e-12)


def test_grid_is_clamped_at_the_batch_edges_and_offers_no_depth_beyond_its_own() -> None:
    grid = StepGrid(EAGLE, DepthLimits(k_max=8, max_num_seqs=512), between=True)
    assert grid.seconds(512).tolist() == grid.seconds(256).tolist()
    assert grid.seconds(100_000).tolist() == grid.seconds(256).tolist()
    assert grid.depths[-1] == 5
    assert StepGrid(EAGLE, DepthLimits(k_max=4, max_num_seqs=8)).depths.tolist() == [0, 1, 3]


def _eagle(step_s: float) -> StepGrid:
    return StepGrid(replace(EAGLE, step_s=((step_s,) * 4,) * 5), LIMITS)


def test_grid_without_a_price_is_not_usable() -> None:
    assert StepGrid(EAGLE, LIMITS).usable
    assert not StepGrid(None, LIMITS).usable
    assert not StepGrid(replace(EAGLE, batches=(), depths=(), step_s=()), LIMITS).usable
    assert not StepGrid(EAGLE, DepthLimits(k_max=0, max_num_seqs=8)).usable  # nothing to choose from
    assert not _eagle(0.0).usable
    assert not _eagle(0.01).usable
    by_batch_only = replace(EAGLE, step_s=tuple((0.01 * row,) * 4 for row in range(1, 6)))
    assert not StepGrid(by_batch_only, LIMITS).usable


def test_staircase_below_the_capture_limit_and_linear_above() -> None:
    cost = StaircaseCost(STAIRS, dense_tokens=40)
    wanted = {1: 0.010, 4: 0.010, 5: 0.011, 8: 0.011, 9: 0.015, 16: 0.015, 17: 0.040, 32: 0.040}
    wanted |= {33: 0.060, 38: 0.065, 43: 0.070, 53: 0.080, 143: 0.170}
    seconds = cost.seconds(list(wanted))
    assert seconds.tolist() == pytest.approx(list(wanted.values()), rel=1e-12)
    dense, computed = cost.between(1, 40), cost.between(1, 41)[:-1]
    assert dense.tolist() == computed.tolist()


def test_staircase_reads_its_table_at_captured_sizes_that_were_not_measured() -> None:
    cost = StaircaseCost(replace(STAIRS, captured_tokens=(6, 12)), dense_tokens=0)  # 16 and up ran uncaptured
    assert cost.seconds([5, 6, 7, 12]).tolist() == pytest.approx([0.0105, 0.0105, 0.012, 0.012])
    assert cost.seconds([13, 16, 24]).tolist() == pytest.approx([0.015, 0.015, 0.0275])


def test_uncaptured_and_unmeasured_goes_on_from_the_last_stair() -> None:
    cost = StaircaseCost(
        replace(STAIRS, verify_tokens=(4, 8), verify_s=(0.010, 0.012), captured_tokens=(4, 8)), 0
    )
    assert cost.seconds([8, 9, 12]).tolist() == pytest.approx([0.012, 0.0125, 0.014])


def test_without_captured_sizes_the_table_is_read_linearly() -> None:
    cost = StaircaseCost(replace(STAIRS, captured_tokens=()), 0)
    assert cost.seconds([1, 6, 12]).tolist() == pytest.approx([0.010, 0.0105, 0.013])


def test_a_falling_tail_is_not_carried_on() -> None:
    cost = StaircaseCost(
        replace(STAIRS, verify_tokens=(4, 8), verify_s=(0.012, 0.010), captured_tokens=()), 0
    )
    assert cost.seconds(1_000_000).tolist() == 0.010


@pytest.mark.parametrize(
    ("tokens", "seconds"),
    [((), ()), ((8,), (0.01,)), ((4, 8), (0.0, 0.0)), ((4, 8), (0.01, 0.01)), ((4, 8), (0.0, 0.01))],
)
def test_staircase_without_a_price_is_not_usable(tokens: tuple[int, ...], seconds: tuple[float, ...]) -> None:
    assert not StaircaseCost(replace(STAIRS, verify_tokens=tokens, verify_s=seconds), 16).usable


def test_no_profile_is_not_usable() -> None:
    assert not StaircaseCost(None, 16).usable
    assert StaircaseCost(STAIRS, 16).usable


def test_draft_seconds_by_batch() -> None:
    assert not draft_seconds(EAGLE, LIMITS).any()
    drafting = replace(EAGLE, draft_s=(0.001, 0.002, 0.003, 0.004, 0.005))
    seconds = draft_seconds(drafting, LIMITS)
    assert len(seconds) == 513
    assert np.array_equal(seconds[[1, 4, 10, 256, 512]], [0.001, 0.002, 0.0025, 0.005, 0.005])
