"""goodput_table: the published worked numbers, acceptance under censoring, probing, refusing to guess."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from governors.contract import DepthLimits, Governor, Reason
from governors.entry import GovernorContext
from governors.profile import Profile
from governors.registry import build_governor
from tests.governors.observations import observation, outcome
from tests.governors.profiles import EAGLE, EAGLE_BEST_DEPTHS, GRID


def _governor(profile: Profile, k_max: int = 5, **options: Any) -> Governor:
    limits = DepthLimits(k_max=k_max, max_num_seqs=512)
    return build_governor("goodput_table", options, GovernorContext(limits, profile=profile))


def _depth(governor: Governor, batch: int, k_max: int = 5) -> int:
    return governor.decide(observation(batch=batch, k_max=k_max, max_num_seqs=512)).depth_next


def test_best_depths_of_the_published_table() -> None:
    """vllm#32374's step times and acceptance give K = 3, 3, 3, 1, 0 at batch 1, 4, 16, 64, 256."""
    governor = _governor(EAGLE)
    assert {batch: _depth(governor, batch) for batch in EAGLE_BEST_DEPTHS} == EAGLE_BEST_DEPTHS


def test_interpolated_depths_are_candidates_only_when_asked_for() -> None:
    # (1 + .681 + .391) / 11.58 ms beats K=1's 1.681 / 9.66 ms, but nobody measured K=2.
    assert _depth(_governor(EAGLE, depths="all"), 64) == 2
    assert _depth(_governor(EAGLE, depths="measured"), 64) == 1


def test_the_lowest_depth_wins_a_tie() -> None:
    tie = replace(GRID, batches=(1,), depths=(0, 1), step_s=((0.010, 0.015),), acceptance=(0.5,))
    assert _depth(_governor(tie, k_max=1), 1) == 0


def test_no_depth_above_k_max() -> None:
    assert _depth(_governor(EAGLE, k_max=2), 1) == 1


def test_flat_zero_or_empty_tables_keep_k_max() -> None:
    for step_s in (((0.01,) * 4,) * 5, ((0.0,) * 4,) * 5):
        decision = _governor(replace(EAGLE, step_s=step_s)).decide(observation(k_max=5))
        assert (decision.windows, decision.depth_next, decision.reason) == (5, 5, Reason.NO_MODEL)
    empty = _governor(replace(EAGLE, batches=(), depths=(), step_s=()))
    assert empty.decide(observation(k_max=5)).reason == Reason.NO_MODEL


def test_rejections_lower_the_depth_and_the_unseen_positions_keep_their_estimate() -> None:
    governor = _governor(GRID, k_max=4, probe_every=0, prior_weight=8.0, window_steps=64)
    assert _depth(governor, 1) == 4
    for _ in range(100):
        governor.observe(outcome([4], [0]))
    assert _depth(governor, 1) == 0
    for _ in range(100):
        governor.observe(outcome([0], [0]))  # K=0: nothing is seen, so nothing is learnt
    assert _depth(governor, 1) == 0
    for _ in range(200):
        governor.observe(outcome([1], [1]))  # position 0 alone is seen again; the rest still is the profile's
    assert _depth(governor, 1) == 4


def test_a_probe_drafts_the_next_deeper_depth_once_in_so_many_decoding_steps() -> None:
    governor = _governor(GRID, k_max=4, probe_every=3)
    seen = [governor.decide(observation(batch=64, k_max=4)) for _ in range(7)]
    assert [decision.depth_next for decision in seen] == [0, 0, 1, 0, 0, 1, 0]
    assert [decision.reason for decision in seen[:3]] == [Reason.OVERLOADED, Reason.OVERLOADED, Reason.PROBED]
    prefill_only = observation(batch=0, k_max=4, prefill_requests=64)
    assert {governor.decide(prefill_only).depth_next for _ in range(9)} == {0}


def test_without_acceptance_it_warms_up_at_k_max() -> None:
    governor = _governor(replace(GRID, acceptance=()), k_max=4, warmup_steps=2)
    assert governor.decide(observation(k_max=4)).reason == Reason.PROBED
    governor.observe(outcome([0], [0]))  # verified nothing: no part of the warm-up
    for accepted in (4, 2):
        assert _depth(governor, 64, k_max=4) == 4
        governor.observe(outcome([4], [accepted]))
    assert _depth(governor, 64, k_max=4) == 2  # acceptance 1, 1, .5, .5 seen: 3 / 38 ms is the most


@pytest.mark.parametrize("load", [0, 1, 1000])
def test_any_load_gets_an_answer(load: int) -> None:
    assert _depth(_governor(EAGLE), load) in (0, 3)
