"""The correctness gate in real vLLM: no governor changes an answer, and a verifier that does is caught."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from depthgate.lossless import Lossless, check_lossless
from governors.registry import GOVERNORS
from suites.model import Arm, Suite
from suites.parse import load_suite
from tests.vllm.live import LiveVllm

SCHEDULE = {"schedule": [[1, 2, 4], [3, 512, 0]]}
ARMS = (
    Arm("off", "off", baseline=True),
    Arm("fixed_0", "fixed", {"depth": 0}),
    Arm("fixed_2", "fixed", {"depth": 2}),
    Arm("fixed_4", "fixed", {"depth": 4}),
    Arm("schedule", "schedule", SCHEDULE),
    Arm("hysteresis_schedule", "hysteresis_schedule", SCHEDULE),
    Arm("disable_above", "disable_above", {"above": 2, "depth": 4}),
    Arm("cycle", "cycle", {"depths": [4, 0, 2]}),
    Arm("ema_ladder", "ema_ladder"),
    Arm("goodput_table", "goodput_table"),
    Arm("dspark", "dspark"),
    Arm("dspark_argmax", "dspark_argmax"),
)
PROMPTS = 4


def suite(*arms: Arm) -> Suite:
    smoke = load_suite("vllm-cpu-smoke")
    return replace(smoke, arms=arms, traffic=tuple(replace(item, max_tokens=40) for item in smoke.traffic))


@pytest.fixture(scope="module")
def checked(live: LiveVllm) -> Lossless:
    """Every bundled governor, asked once."""
    from engines import registry
    from tests.vllm.live import LentEngine

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            registry.ENGINES, "vllm", registry.EngineEntry("lent", lambda spec, arm, alone: LentEngine(live))
        )
        return asyncio.run(check_lossless(suite(*ARMS), PROMPTS))


def test_every_bundled_governor_is_among_the_arms() -> None:
    """A new governor has to stand in ARMS (off is the reference)."""
    assert {arm.governor for arm in ARMS} == GOVERNORS.keys()


def test_no_governor_changes_an_answer_or_what_is_accepted_at_a_k(checked: Lossless) -> None:
    assert checked.faults == ()
    tokens = [answer.tokens for arm in checked.arms for answer in arm.answers]
    assert all(ids is not None and len(ids) == 40 for ids in tokens)


def test_the_models_put_it_to_a_test(checked: Lossless) -> None:
    """Drafts were accepted and rejected, else equal answers would say nothing; and at K=0 none were made."""
    by_arm = {arm.arm: arm.counters for arm in checked.arms}
    for name in ("fixed_2", "fixed_4", "schedule", "dspark"):
        counters = by_arm[name]
        assert counters is not None
        assert counters.draft_tokens is not None
        assert counters.accepted_tokens is not None
        assert 0.1 * counters.draft_tokens < counters.accepted_tokens < 0.95 * counters.draft_tokens
    assert by_arm["fixed_0"] is not None
    assert by_arm["fixed_0"].draft_tokens == 0
    assert sum(arm.depth == 4 for arm in checked.arms) >= 3  # so that counts had something to agree with


def test_a_lossy_verifier_is_caught(lent: LiveVllm, lossy: None) -> None:
    found = asyncio.run(check_lossless(suite(ARMS[0], ARMS[1], ARMS[3]), PROMPTS))
    assert [fault for fault in found.faults if fault.startswith("fixed_0")] == []  # nothing to accept at K=0
    assert len([fault for fault in found.faults if fault.startswith("fixed_4: the answer")]) == PROMPTS
