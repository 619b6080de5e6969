"""Golden traces: every bundled policy decides as it did when its decisions were checked in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from governors.contract import DepthDecision
from governors.entry import GovernorContext
from governors.registry import GOVERNORS, build_governor
from governors.replay import read_trace, replay, trace_line
from governors.windows import clamp
from tests.governors.profiles import STAIRS
from tests.governors.traces import LIMITS, synthetic_trace

GOLDEN = Path(__file__).parents[1] / "golden" / "governors"
TRACE = GOLDEN / "load_1_64_1.trace.jsonl"
SEED = 20261130
CONTEXT = GovernorContext(LIMITS, seed=1, profile=STAIRS, drafter_class="eagle")

OPTIONS: dict[str, Mapping[str, object]] = {
    "off": {},
    "fixed": {"depth": 2},
    "disable_above": {"above": 16},
    "schedule": {"schedule": [[1, 4, 4], [5, 16, 2], [17, 512, 0]]},
    "hysteresis_schedule": {
        "schedule": [[1, 4, 4], [5, 16, 2], [17, 512, 0]],
        "dead_band": 2,
        "dwell_steps": 2,
    },
    "goodput_table": {"probe_every": 8},
    "ema_ladder": {"update_every": 2, "warmup_steps": 2},
    "cycle": {"depths": [3, 0, 0, 0]},
    "dspark": {"rest_after": 2, "probe_every": 5},
    "dspark_argmax": {"rest_after": 2, "probe_every": 5},
}


def _line(decision: DepthDecision) -> str:
    windows = decision.windows
    plain = windows if isinstance(windows, int) else windows.tolist()
    return json.dumps({"windows": plain, "depth_next": decision.depth_next, "reason": decision.reason}) + "\n"


def _decisions(name: str) -> str:
    governor = build_governor(name, OPTIONS[name], CONTEXT)
    return "".join(_line(decision) for decision in replay(read_trace(TRACE), governor))


def test_every_bundled_policy_has_a_golden_trace() -> None:
    assert OPTIONS.keys() == GOVERNORS.keys()


def test_the_trace_is_what_its_seed_gives(rewrite_golden: bool) -> None:
    text = "".join(trace_line(step.observation, step.outcome) for step in synthetic_trace(SEED))
    if rewrite_golden:
        TRACE.write_text(text, encoding="utf-8")
    assert TRACE.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_decisions_are_the_golden_ones(name: str, rewrite_golden: bool) -> None:
    golden = GOLDEN / f"{name}.jsonl"
    text = _decisions(name)
    if rewrite_golden:
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text
    assert _decisions(name) == text  # a second governor of the same seed


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_decision_can_be_executed(name: str) -> None:
    trace = read_trace(TRACE)
    governor = build_governor(name, OPTIONS[name], CONTEXT)
    for step, decision in zip(trace.steps, replay(trace, governor), strict=True):
        windows, depth = clamp(decision, step.observation)
        assert depth == decision.depth_next
        assert np.array_equal(windows, np.minimum(decision.windows, step.observation.drafts_in_hand))
