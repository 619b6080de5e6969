"""off, fixed and disable_above: one depth for the whole batch, by rule alone."""

from __future__ import annotations

from governors.contract import DepthLimits, Reason
from governors.entry import GovernorContext
from governors.registry import build_governor
from tests.governors.observations import observation

CONTEXT = GovernorContext(DepthLimits(k_max=3, max_num_seqs=64))


def test_off_never_drafts_nor_verifies() -> None:
    decision = build_governor("off", {}, CONTEXT).decide(observation(batch=2))
    assert (decision.windows, decision.depth_next, decision.reason) == (0, 0, Reason.STEADY)


def test_fixed_is_the_same_at_any_load() -> None:
    governor = build_governor("fixed", {"depth": 2}, CONTEXT)
    assert {governor.decide(observation(batch=batch)).depth_next for batch in (0, 1, 64)} == {2}
    assert build_governor("fixed", {}, CONTEXT).decide(observation()).depth_next == 3


def test_disable_above_counts_prompts_unless_told_otherwise() -> None:
    burst = observation(batch=8, prefill_requests=12)
    vllm = build_governor("disable_above", {"above": 16}, CONTEXT)
    assert vllm.decide(observation(batch=16)).depth_next == 3
    decision = vllm.decide(burst)
    assert (decision.windows, decision.depth_next, decision.reason) == (3, 0, Reason.BACKED_OFF)
    assert vllm.decide(burst).reason == Reason.OVERLOADED
    assert vllm.decide(observation(batch=16)).reason == Reason.RAISED
    decodes = build_governor("disable_above", {"above": 16, "depth": 1, "count": "decodes"}, CONTEXT)
    assert decodes.decide(burst).depth_next == 1
