"""schedule: vLLM's table and validation, what it accepts in silence, and the dead band that steadies it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from governors.contract import DepthLimits, Governor, Reason
from governors.entry import GovernorContext, GovernorError
from governors.registry import build_governor, governor_warnings
from tests.governors.observations import observation

CONTEXT = GovernorContext(DepthLimits(k_max=3, max_num_seqs=256))
PUBLISHED = [[1, 64, 3], [65, 101, 2], [102, 165, 1], [166, 256, 0]]  # vllm#48944
COLLAPSE = [[1, 4, 2], [5, 512, 0]]  # vllm#49548


def _depths(governor: Governor, loads: list[int]) -> list[int]:
    return [governor.decide(observation(batch=load)).depth_next for load in loads]


def _switches(depths: list[int]) -> int:
    return sum(before != after for before, after in pairwise(depths))


def test_the_published_schedule() -> None:
    governor = build_governor("schedule", {"schedule": PUBLISHED}, CONTEXT)
    loads = [1, 64, 65, 101, 102, 165, 166, 256]
    assert _depths(governor, loads) == [3, 3, 2, 2, 1, 1, 0, 0]
    assert governor_warnings("schedule", {"schedule": PUBLISHED}, CONTEXT) == ()


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (None, "schedule.schedule=None: give a non-empty list"),
        ("1-4:2", "give a non-empty list"),
        (((1, 4, 2),), "give a non-empty list"),
        ({1: 2}, "give a non-empty list"),
        ([], "give a non-empty list"),
        ([[1, 4]], "schedule.schedule=[1, 4]: each entry has 3 items"),
        ([[1, 4, 1, 1000, 2]], "each entry has 3 items"),
        ([7], "each entry has 3 items"),
        ([[1, 4, 2.5]], "lo, hi and K are integers"),
        ([[1, 4, "2"]], "lo, hi and K are integers"),
        ([[1, 4, None]], "lo, hi and K are integers"),
        ([[True, 4, 2]], "lo, hi and K are integers"),
        ([[1, 4, False]], "lo, hi and K are integers"),
        ([[0, 4, 2]], "lo and hi are at least 1"),
        ([[1, 0, 2]], "lo and hi are at least 1"),
        ([[-1, 4, 2]], "lo and hi are at least 1"),
        ([[4, 1, 2]], "schedule.schedule=[4, 1, 2]: lo is above hi; write [1, 4, 2]"),
        ([[1, 4, -1]], "K is at least 0"),
        ([[1, 4, 2], [4, 8, 1]], "ranges 1-4 and 4-8 overlap; begin the second at 5"),
        ([[1, 9, 2], [4, 4, 1]], "ranges 1-9 and 4 overlap"),
        ([[1, 4, 2], [1, 4, 2]], "ranges 1-4 and 1-4 overlap"),
        ([[2, 4, 2]], "the first range begins at 2; begin it at 1"),
    ],
)
@pytest.mark.parametrize("name", ["schedule", "hysteresis_schedule"])
def test_refuses_what_vllm_refuses(name: str, schedule: Any, said: str) -> None:
    with pytest.raises(GovernorError, match=re.escape(said)):
        build_governor(name, {"schedule": schedule}, CONTEXT)


def test_the_default_dead_band_fits_an_engine_of_one_seat() -> None:
    context = GovernorContext(DepthLimits(k_max=3, max_num_seqs=1))
    governor = build_governor("hysteresis_schedule", {"schedule": [[1, 512, 2]]}, context)
    assert _depths(governor, [1, 1]) == [2, 2]


def test_ranges_may_stand_in_any_order_and_be_tuples() -> None:
    governor = build_governor("schedule", {"schedule": [(5, 512, 0), (1, 4, 2)]}, CONTEXT)
    assert _depths(governor, [1, 4, 5, 256]) == [2, 2, 0, 0]


def test_gaps_and_a_short_tail_carry_the_previous_depth_on_and_are_said() -> None:
    options = {"schedule": [[1, 16, 3], [32, 32, 2], [40, 128, 1]]}
    governor = build_governor("schedule", options, CONTEXT)
    assert _depths(governor, [16, 17, 31, 32, 33, 39, 40, 128, 129, 256]) == [3, 3, 3, 2, 2, 2, 1, 1, 1, 1]
    assert governor_warnings("schedule", options, CONTEXT) == (
        "schedule.schedule: loads 17-31 are in no range; K=3 is carried on",
        "schedule.schedule: loads 33-39 are in no range; K=2 is carried on",
        "schedule.schedule: it ends at 128; K=1 is carried on to max_num_seqs=256",
    )


def test_a_depth_above_k_max_is_clamped_and_said() -> None:
    options = {"schedule": [[1, 4, 7], [6, 300, 0], [301, 400, 1]]}
    assert _depths(build_governor("schedule", options, CONTEXT), [4, 5, 6]) == [3, 3, 0]
    assert governor_warnings("schedule", options, CONTEXT) == (
        "schedule.schedule: loads 5 are in no range; K=3 is carried on",
        "schedule.schedule: K=7 for loads 1-4 is clamped to k_max=3",
        "schedule.schedule: loads 301-400 are above max_num_seqs=256 and never reached",
    )
    assert governor_warnings("hysteresis_schedule", options, CONTEXT)[0].startswith(
        "hysteresis_schedule.schedule"
    )


def test_load_beyond_the_table_takes_its_last_entry() -> None:
    assert _depths(build_governor("schedule", {"schedule": PUBLISHED}, CONTEXT), [1000]) == [0]


def test_a_burst_of_prompts_crosses_the_threshold_unless_decodes_are_counted() -> None:
    burst = observation(batch=8, prefill_requests=12)
    options: dict[str, Any] = {"schedule": [[1, 16, 2], [17, 256, 0]]}
    assert build_governor("schedule", options, CONTEXT).decide(burst).depth_next == 0
    decodes = build_governor("schedule", {**options, "count": "decodes"}, CONTEXT)
    assert decodes.decide(burst).depth_next == 2
    assert decodes.decide(observation(batch=0, prefill_requests=40)).depth_next == 2


def test_reasons() -> None:
    governor = build_governor("schedule", {"schedule": COLLAPSE}, CONTEXT)
    reasons = [governor.decide(observation(batch=batch)).reason for batch in (4, 4, 5, 5, 4)]
    assert reasons == [Reason.STEADY, Reason.STEADY, Reason.BACKED_OFF, Reason.OVERLOADED, Reason.RAISED]


def test_jitter_around_a_threshold_thrashes_the_schedule_and_not_the_dead_band() -> None:
    loads = [4, 5, 4, 6, 3, 5, 4, 6] * 25
    plain = _depths(build_governor("schedule", {"schedule": COLLAPSE}, CONTEXT), loads)
    steady = _depths(build_governor("hysteresis_schedule", {"schedule": COLLAPSE}, CONTEXT), loads)
    assert _switches(plain) > 100
    assert _switches(steady) == 0


def test_a_load_far_across_the_threshold_moves_it_after_the_dwell_and_back() -> None:
    governor = build_governor("hysteresis_schedule", {"schedule": COLLAPSE, "dwell_steps": 3}, CONTEXT)
    assert _depths(governor, [1, 20, 20, 20, 20]) == [2, 2, 2, 0, 0]
    assert _depths(governor, [20, 3, 3, 3, 3]) == [0, 0, 0, 0, 0]  # within the dead band
    assert _depths(governor, [2, 2, 20, 2, 2, 2]) == [0, 0, 0, 0, 0, 2]  # the dwell starts over


def test_the_ends_of_the_load_always_reach_their_own_depth() -> None:
    narrow = {"schedule": [[1, 1, 3], [2, 255, 2], [256, 256, 0]], "dead_band": 50, "dwell_steps": 1}
    governor = build_governor("hysteresis_schedule", narrow, CONTEXT)
    assert _depths(governor, [100, 1, 40, 52, 256, 210, 205]) == [2, 3, 3, 2, 0, 0, 2]


def test_no_dead_band_and_no_dwell_is_the_plain_schedule() -> None:
    loads = [1, 5, 300, 64, 65, 166, 2, 101, 102]
    options = {"schedule": PUBLISHED, "dead_band": 0, "dwell_steps": 1}
    plain = build_governor("schedule", {"schedule": PUBLISHED}, CONTEXT)
    assert _depths(build_governor("hysteresis_schedule", options, CONTEXT), loads) == _depths(plain, loads)
