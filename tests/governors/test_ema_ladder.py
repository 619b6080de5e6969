"""ema_ladder: when a rung is left, what the dead band and the hold do, and its ways out of K=0; cycle."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from governors.contract import DepthLimits, Governor, Reason
from governors.entry import GovernorContext, GovernorError
from governors.registry import build_governor
from tests.governors.observations import observation, outcome

CONTEXT = GovernorContext(DepthLimits(k_max=7, max_num_seqs=256))
PROMPT = {"alpha": 1.0, "update_every": 1, "warmup_steps": 1}  # every step decides, by that step alone


def depths(options: dict[str, Any], accepted: Iterable[int], batch: int = 1) -> list[int]:
    """The K of each step, given what each verification accepts (cut to the K in force)."""
    governor = build_governor("ema_ladder", options, CONTEXT)
    found = [step(governor, batch)]
    for count in accepted:
        governor.observe(outcome([found[-1]] * batch, [min(count, found[-1])] * batch))
        found.append(step(governor, batch))
    return found


def step(governor: Governor, batch: int) -> int:
    return governor.decide(observation(batch=batch, k_max=7)).depth_next


def test_it_rises_when_the_rung_is_nearly_full_and_drops_when_the_one_below_would_do() -> None:
    assert depths(PROMPT, [3, 5, 7]) == [3, 5, 7, 7]
    assert depths(PROMPT, [0, 0, 1]) == [3, 1, 1, 3]
    assert depths(PROMPT, [2, 2]) == [3, 3, 3]  # 2 is not above 2.5, nor at most 0.25


def test_without_a_dead_band_the_same_acceptance_swings_3_and_5() -> None:
    """Three of three pass at K=3, two of five at K=5: up at > 2.5, down at <= 2.5."""
    swing = [3, 2] * 4
    switches = {
        down: sum(a != b for a, b in pairwise(depths({**PROMPT, "down": down}, swing)))
        for down in (0.0, -0.75)
    }
    assert switches == {0.0: 8, -0.75: 1}


def test_a_hold_keeps_k_down_after_a_drop() -> None:
    held = depths({**PROMPT, "down": 0.0, "hold_updates": 3}, [3, 2, 3, 3, 3, 3])
    assert held == [3, 5, 3, 3, 3, 3, 5]


def test_the_average_forgets_with_alpha_and_waits_for_warm_up() -> None:
    options = {"alpha": 0.5, "update_every": 1, "warmup_steps": 3}
    # averages 0, 1.5, 2.25, 2.625: only the last is above 2.5
    assert depths(options, [0, 3, 3, 3]) == [3, 3, 3, 3, 5]


def test_at_zero_the_next_update_probes_the_smallest_depth_above() -> None:
    governor = build_governor("ema_ladder", {**PROMPT, "start": 0}, CONTEXT)
    assert step(governor, batch=8) == 0
    governor.observe(outcome([0] * 8, [0] * 8))
    decision = governor.decide(observation(batch=8, k_max=7))
    assert (decision.depth_next, decision.reason) == (1, Reason.PROBED)


def test_each_range_of_batches_has_a_ladder_and_an_average_of_its_own() -> None:
    governor = build_governor("ema_ladder", PROMPT, CONTEXT)
    assert [step(governor, batch) for batch in (1, 7, 8, 31, 32, 63, 64, 256)] == [3, 3, 3, 3, 1, 1, 0, 0]
    governor.observe(outcome([3], [3]))
    assert [step(governor, batch) for batch in (1, 8)] == [5, 3]


def test_ladders_end_at_k_max() -> None:
    governor = build_governor("ema_ladder", {}, GovernorContext(DepthLimits(k_max=2, max_num_seqs=64)))
    assert governor.decide(observation(batch=1, k_max=2)).depth_next == 1


@pytest.mark.parametrize(
    ("ladders", "said"),
    [
        ([], "give [[batch, [K, ...]], ...]"),
        ([[2, [0, 1]]], "the first batch 1"),
        ([[1, []]], "give [[batch, [K, ...]], ...]"),
        ([[1, [3, 1]]], "ema_ladder.ladders=[1, [3, 1]]: give"),
        ([[1, [1]], [1, [3]]], "batches and depths rising"),
        ([[1, [8, 9]]], "no depth of batch 1 is within k_max=7"),
    ],
)
def test_wrong_ladders_are_refused(ladders: object, said: str) -> None:
    with pytest.raises(GovernorError, match=re.escape(said)):
        build_governor("ema_ladder", {"ladders": ladders}, CONTEXT)


def test_a_cycle_plays_its_depths_whatever_the_load() -> None:
    governor = build_governor("cycle", {"depths": [3, 0, 0, 0]}, CONTEXT)
    assert [step(governor, batch) for batch in (1, 64, 2, 8, 1, 1)] == [3, 0, 0, 0, 3, 0]


@pytest.mark.parametrize(
    ("options", "said"),
    [({}, "cycle.depths is missing"), ({"depths": []}, "non-empty"), ({"depths": [3, 8]}, "8 is no integer")],
)
def test_wrong_cycles_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(GovernorError, match=re.escape(said)):
        build_governor("cycle", options, CONTEXT)
