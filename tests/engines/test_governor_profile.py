"""The tables that policies get are the model's own means, say that they are a model, and bridge no cliff."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines.embedded.governor_profile import governor_profile
from engines.embedded.profile import load_profile, profile_names
from engines.embedded.roofline import RooflineCost, modelled_step_s
from governors.contract import DepthLimits
from governors.cost import StaircaseCost, StepGrid
from tests.engines.tiny_profile import TINY, decode


def test_tiny() -> None:
    table = governor_profile(TINY)
    assert table.is_model
    assert "embedded engine" in table.source
    assert "tiny" in table.source
    assert table.binding == TINY.binding
    assert table.depths == (0, 1, 2, 3)
    # the largest captured size, 8 tokens, is full at 8, 4, 2.7 and 2 requests; 7 is 8 - 1
    assert table.batches == (1, 2, 3, 4, 5, 6, 7, 8)
    assert table.verify_tokens == (1, 2, 3, 4, 5, 8, 9, 16, 32)
    assert table.acceptance == (0.8, 0.6, 0.4)
    assert table.captured_tokens == (1, 2, 4, 8)
    for row, batch in zip(table.step_s, table.batches, strict=True):
        expected = [modelled_step_s(TINY, batch, k, armed=True, speculative=True) for k in table.depths]
        assert list(row) == pytest.approx(expected)


def test_draft_and_verify_are_one_step_taken_apart() -> None:
    table = governor_profile(TINY)
    assert table.draft_s is not None
    shape = decode(2, 3, context=10)
    assert table.draft_s[1] == pytest.approx(RooflineCost(TINY).cost(shape).draft_s)
    verify = replace(shape, decode_uniform=False, depth_next=0, draft_requests=0, speculative=False)
    at = table.verify_tokens.index(8)
    assert table.verify_s[at] == pytest.approx(RooflineCost(TINY).expected(verify).step_s)


def test_an_armed_schedule_is_what_policies_are_charged() -> None:
    profile = load_profile("h200-qwen3-4b-eagle")
    armed, free = governor_profile(profile), governor_profile(profile, armed=False)
    assert all(a > b for a, b in zip(armed.step_s[0], free.step_s[0], strict=True))


def test_the_grid_stands_on_both_sides_of_the_capture_ceiling() -> None:
    batches = governor_profile(load_profile("h200-qwen3-4b-eagle")).batches
    assert {170, 171} <= set(batches)  # 512 captured / 3 tokens a request


@pytest.mark.parametrize("name", profile_names())
def test_policies_read_back_what_the_model_says(name: str) -> None:
    """At grid points exactly; elsewhere within 10 % (stated before it was tried): the cost is no line."""
    profile = load_profile(name)
    table = governor_profile(profile)
    limits = DepthLimits(profile.k_max, profile.scheduler.max_num_seqs)
    grid = StepGrid(table, limits)
    staircase = StaircaseCost(table, dense_tokens=64)
    assert grid.usable
    assert staircase.usable
    for batch in range(1, profile.scheduler.max_num_seqs + 1, 7):
        found = grid.seconds(batch)
        expected = [
            modelled_step_s(profile, batch, int(k), armed=True, speculative=True) for k in grid.depths
        ]
        assert list(found) == pytest.approx(expected, rel=1e-9 if batch in table.batches else 0.1)
