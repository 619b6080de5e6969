"""dspark and dspark_argmax as policies: costs, prefill, missing confidence, rest, and refusing to guess."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from governors.contract import DepthLimits, Governor, Reason
from governors.entry import GovernorContext
from governors.profile import Profile
from governors.registry import build_governor
from governors.rest import Rest
from tests.governors.observations import observation
from tests.governors.profiles import STAIRS

LINEAR = replace(STAIRS, captured_tokens=())
BOTH = pytest.mark.parametrize("name", ["dspark", "dspark_argmax"])


def _governor(name: str, profile: Profile | None = STAIRS, k_max: int = 3, **options: Any) -> Governor:
    return build_governor(name, options, GovernorContext(DepthLimits(k_max, 64), profile=profile))


def _windows(governor: Governor, **seen: Any) -> list[int]:
    return list(np.asarray(governor.decide(observation(**seen)).windows))


@BOTH
def test_what_fits_the_stair_is_free_and_nothing_goes_over_its_edge(name: str) -> None:
    """6 requests stand on the stair of 5..8 tokens, 11 ms: two drafts fit; the next stair does not pay."""
    chances = [[0.9, 0.1, 0.1], [0.2, 0.1, 0.1], [0.9, 0.1, 0.1], *([[0.2, 0.1, 0.1]] * 3)]
    assert _windows(_governor(name), batch=6, confidence=chances) == [1, 0, 1, 0, 0, 0]
    two = [[0.9, 0.9, 0.9], [0.1, 0.1, 0.1]]  # 2 requests and all 6 drafts are 8 tokens: one stair up
    assert _windows(_governor(name), batch=2, confidence=two) == [3, 3]


def test_early_stop_stalls_where_argmax_climbs() -> None:
    """Four requests fill the stair of 4 tokens at 10 ms. One draft more costs 10 % and, at survival .3,
    brings 7.5 %, so Theta falls at once; four of them cost the same 10 % and bring 30 %."""
    seen = {"batch": 4, "k_max": 1, "confidence": [[0.3]] * 4}
    assert _windows(_governor("dspark", k_max=1), **seen) == [0, 0, 0, 0]
    assert _windows(_governor("dspark_argmax", k_max=1), **seen) == [1, 1, 1, 1]


def test_the_drafters_time_is_part_of_the_step() -> None:
    """A step is verification and drafting: a dear drafter makes verifying more of its drafts worth while."""
    seen = {"batch": 8, "k_max": 1, "confidence": [[0.3]] * 8}  # 11 -> 15 ms for 30 % more tokens
    assert _windows(_governor("dspark_argmax", k_max=1), **seen) == [0] * 8
    drafting = replace(STAIRS, draft_s=(0.020, 0.020, 0.020))
    assert _windows(_governor("dspark_argmax", drafting, k_max=1), **seen) == [1] * 8


@BOTH
def test_prefill_tokens_are_part_of_the_step(name: str) -> None:
    """28 prompt tokens and 4 decodes fill the stair of 32: one draft more runs uncaptured, at 60 ms."""
    seen = {"batch": 4, "k_max": 1, "confidence": [[0.55]] * 4}
    assert _windows(_governor(name, k_max=1), **seen) == [1] * 4
    assert _windows(_governor(name, k_max=1), prefill_requests=1, prefill_tokens=28, **seen) == [0] * 4
    huge = observation(prefill_requests=1, prefill_tokens=100_000, **seen)  # type: ignore[arg-type]
    assert len(np.asarray(_governor(name, k_max=1).decide(huge).windows)) == 4


@BOTH
def test_a_step_that_only_prefills(name: str) -> None:
    decision = _governor(name).decide(observation(batch=0, prefill_requests=2, prefill_tokens=64))
    assert (np.asarray(decision.windows).shape, decision.depth_next, decision.reason) == (
        (0,),
        3,
        Reason.STEADY,
    )


@BOTH
def test_an_engine_without_drafts(name: str) -> None:
    governor = _governor(name, k_max=0)
    decision = governor.decide(observation(batch=3, k_max=0))
    assert (np.asarray(decision.windows).tolist(), decision.depth_next) == ([0, 0, 0], 0)


@BOTH
@pytest.mark.parametrize(
    "changes",
    [
        {"verify_s": (0.01,) * 6},
        {"verify_s": (0.0,) * 6},
        {"verify_tokens": (), "verify_s": ()},
        {"verify_tokens": (8,), "verify_s": (0.01,)},
    ],
)
def test_a_flat_or_empty_cost_table_verifies_all_and_says_no_model(
    name: str, changes: dict[str, Any]
) -> None:
    decision = _governor(name, replace(STAIRS, **changes)).decide(observation(batch=2))
    assert (decision.windows, decision.depth_next, decision.reason) == (3, 3, Reason.NO_MODEL)


@BOTH
def test_reasons(name: str) -> None:
    def reason(batch: int) -> Reason:
        seen = observation(batch=batch, k_max=1, confidence=[[0.1]] * batch)
        return _governor(name, k_max=1).decide(seen).reason

    assert reason(2) == Reason.STEADY
    assert reason(8) == Reason.OVERLOADED
    some = [[0.95]] + [[0.01]] * 2
    trimmed = _governor(name, k_max=1).decide(observation(batch=3, k_max=1, confidence=some))
    assert (np.asarray(trimmed.windows).tolist(), trimmed.reason) == ([1, 0, 0], Reason.BACKED_OFF)


@BOTH
def test_history_stands_in_for_confidence_and_is_probed(name: str) -> None:
    seen = observation(batch=8, k_max=1, reached=[[100]] * 8, accepted=[[1]] * 8)
    governor = _governor(name, k_max=1, probe_every=3)
    decisions = [governor.decide(seen) for _ in range(6)]
    assert [int(np.sum(decision.windows)) for decision in decisions] == [0, 0, 1, 0, 0, 1]
    assert [decision.reason for decision in decisions[1:3]] == [Reason.OVERLOADED, Reason.PROBED]


@BOTH
def test_confidence_is_never_probed(name: str) -> None:
    seen = observation(batch=8, k_max=1, confidence=[[0.01]] * 8)
    governor = _governor(name, k_max=1, probe_every=2)
    assert {governor.decide(seen).reason for _ in range(20)} == {Reason.OVERLOADED}


@BOTH
def test_it_always_drafts_unless_told_to_rest(name: str) -> None:
    hopeless = observation(batch=8, k_max=1, confidence=[[0.01]] * 8)
    governor = _governor(name, k_max=1)
    assert {governor.decide(hopeless).depth_next for _ in range(500)} == {1}
    resting = _governor(name, LINEAR, k_max=1, rest_after=3, probe_every=4)
    idle = observation(batch=8, k_max=1, drafts=[0] * 8)
    seen = [resting.decide(hopeless) for _ in range(3)] + [resting.decide(idle) for _ in range(3)]
    assert [decision.depth_next for decision in seen] == [1, 1, 0, 0, 0, 1]
    assert seen[-1].reason == Reason.PROBED
    hopeful = observation(batch=8, k_max=1, confidence=[[0.99]] * 8)
    assert resting.decide(hopeful).depth_next == 1


def test_rest_begins_after_its_count_and_ends_by_a_lighter_load_or_a_find() -> None:
    rest = Rest(after=2, probe_every=0)
    assert [rest.drafts_next(batch=8, drafted=8, admitted=0) for _ in range(3)] == [True, False, False]
    assert not rest.drafts_next(batch=7, drafted=0, admitted=0)
    assert rest.drafts_next(batch=6, drafted=0, admitted=0)  # three quarters of 8
    assert [rest.drafts_next(batch=6, drafted=6, admitted=0) for _ in range(2)] == [True, False]
    assert rest.drafts_next(batch=6, drafted=6, admitted=1)
    assert rest.drafts_next(batch=6, drafted=0, admitted=0)  # nothing drafted says nothing
    assert [rest.drafts_next(batch=6, drafted=6, admitted=0) for _ in range(2)] == [True, False]
    assert rest.drafts_next(batch=0, drafted=0, admitted=0)
