"""Under any governor, sound or hostile, and any scheduler knobs: the same tokens, all of them, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.embedded.assembly import assemble
from engines.embedded.core import EngineCore
from engines.embedded.guard import GuardedGovernor
from engines.embedded.profile import profile_names
from engines.embedded.requests import NewRequest
from governors.contract import DepthDecision, Reason, StepObservation, StepOutcome
from tests.engines.watched import Watched

LONGEST = (60, 40)  # prompt and output tokens
K_MAX = 4
FLAT = {"by_class": {"default": [0.7, 0.49, 0.343, 0.2401]}, "spread": 0.0, "drift": 0.0, "batch_slope": 0.0}
"""Every position passes at the same conditional rate: whether an output token's draft passes depends on the
request alone, so that runs under different governors must agree about it."""
WILD = {**FLAT, "spread": 0.8, "drift": 0.5, "drift_tokens": 9.0, "batch_slope": -0.2}

REQUIRED = {
    ("disable_above", "above"),
    ("schedule", "schedule"),
    ("hysteresis_schedule", "schedule"),
    ("cycle", "depths"),
}
Governors = st.SearchStrategy[tuple[str, dict[str, Any]]]


def schedules() -> st.SearchStrategy[list[list[int]]]:
    return st.builds(
        lambda edge, low, high: [[1, edge, low], [edge + 1, 512, high]],
        st.integers(1, 6), st.integers(0, K_MAX), st.integers(0, K_MAX),
    )  # fmt: skip


def governors() -> Governors:
    """Bundled ones with options drawn from all that they document."""
    depth, schedule = st.integers(0, K_MAX), schedules()
    count, probe = st.sampled_from(("scheduled", "decodes")), st.sampled_from((0, 1, 7, 256))
    options: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "off": {},
        "fixed": {"depth": depth},
        "disable_above": {"above": st.integers(1, 6), "depth": depth, "count": count},
        "schedule": {"schedule": schedule, "count": count},
        "hysteresis_schedule": {
            "schedule": schedule, "dead_band": st.integers(0, 1), "dwell_steps": st.integers(1, 9),
        },
        "goodput_table": {
            "depths": st.sampled_from(("measured", "all")), "warmup_steps": st.integers(1, 20),
            "window_steps": st.integers(1, 64), "prior_weight": st.integers(1, 64), "probe_every": probe,
        },
        "ema_ladder": {"start": depth, "update_every": st.integers(1, 5), "warmup_steps": st.integers(1, 9)},
        "cycle": {"depths": st.lists(depth, min_size=1, max_size=5)},
        "dspark": {"rest_after": st.integers(0, 5), "probe_every": probe},
        "dspark_argmax": {"rest_after": st.integers(0, 5), "probe_every": probe},
    }  # fmt: skip
    return st.one_of(*(_with_options(name, given) for name, given in options.items()))


def _with_options(name: str, given: Mapping[str, st.SearchStrategy[Any]]) -> Governors:
    required = {key: drawn for key, drawn in given.items() if (name, key) in REQUIRED}
    optional = {key: drawn for key, drawn in given.items() if key not in required}
    return st.tuples(st.just(name), st.fixed_dictionaries(required, optional=optional))


@st.composite
def engine_options(draw: st.DrawFn, acceptance: Mapping[str, object]) -> dict[str, object]:
    """Scheduler knobs so tight that prompts run in chunks and blocks run out; the longest request fits."""
    block_size = draw(st.sampled_from((1, 4, 16)))
    floor = -(-(sum(LONGEST) + 2 * K_MAX) // block_size)
    return {
        "k_max": K_MAX,
        "acceptance": acceptance,
        "max_num_seqs": draw(st.integers(1, 9)),
        "max_num_batched_tokens": draw(st.integers(1, 50) | st.just(8192)),
        "max_model_len": draw(st.integers(sum(LONGEST), 2 * sum(LONGEST))),
        "block_size": block_size,
        "kv_blocks": floor + draw(st.integers(0, floor) | st.just(20 * floor)),
        "penalties": draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "lookahead_static": st.booleans(),
                    "zero_depth_sync": st.booleans(),
                    "draft_budget_tokens": st.integers(0, 8),
                    "policy_ignored": st.integers(0, K_MAX),
                },
            )
        ),
    }


REQUESTS = st.builds(NewRequest, st.integers(1, LONGEST[0]), st.integers(1, LONGEST[1]))
TRAFFIC = st.lists(st.tuples(st.integers(0, 12), REQUESTS), min_size=1, max_size=10)
"""(steps that the engine runs before it arrives, request)"""


def drive(core: EngineCore, traffic: list[tuple[int, NewRequest]]) -> Watched:
    """Requests arrive between steps, each with luck of its own; then to the end."""
    engine = Watched(core)
    for number, (steps, asked) in enumerate(traffic):
        for _ in range(steps):
            engine.step()
        engine.submit(NewRequest(asked.prompt_tokens, asked.output_tokens, acceptance_seed=number))
    engine.run()
    engine.check_all_served()
    return engine


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.sampled_from(profile_names()), governors(), engine_options(WILD), st.integers(0, 3), TRAFFIC)
def test_any_governor_on_any_profile_conserves_tokens_and_repeats_bit_for_bit(
    profile: str,
    governor: tuple[str, dict[str, Any]],
    options: dict[str, object],
    seed: int,
    traffic: list[tuple[int, NewRequest]],
) -> None:
    runs = []
    for _ in range(2):
        assembled = assemble(profile, *governor, options, seed)
        engine = drive(assembled.core, traffic)
        assert assembled.guard.errors == 0
        runs.append([(r.record, r.handles.tolist(), r.counts.tolist()) for r in engine.log])
    assert runs[0] == runs[1]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(governors(), min_size=2, max_size=4), engine_options(FLAT), TRAFFIC)
def test_a_token_passes_or_fails_alike_under_every_governor(
    several: list[tuple[str, dict[str, Any]]],
    options: dict[str, object],
    traffic: list[tuple[int, NewRequest]],
) -> None:
    """Preemption, chunks and depth decide when a draft is verified, never what the target says of it."""
    coins: dict[tuple[int, int], bool] = {}
    for governor in several:
        engine = drive(assemble("h200-qwen3-4b-eagle", *governor, options, 3).core, traffic)
        for token, passed in engine.coins.items():
            assert coins.setdefault(token, passed) is passed


@dataclass
class Hostile:
    """Answers what it likes: legal, out of range, of the wrong kind; and sometimes raises."""

    seed: int

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self.illegal = 0

    def decide(self, observation: StepObservation) -> DepthDecision:
        random, batch = self._random, observation.batch
        legal: list[Any] = [
            int(random.integers(-3, 9)), 10**30, -(10**30), np.int8(3), np.full(batch, 2**63 + 1, np.uint64),
            random.integers(-3, 9, batch), np.full(batch, -7, np.int16), np.full(batch, 255, np.uint8),
        ]  # fmt: skip
        illegal: list[Any] = [
            None, True, 1.5, float("nan"), "2", [1] * batch, np.zeros(batch), np.zeros(batch + 1, np.int64),
            np.zeros((batch, 2), np.int64), np.zeros(batch, np.bool_), np.array(3), np.full(batch, np.nan),
        ]  # fmt: skip
        kind = int(random.integers(0, 6))
        if kind == 0:
            self.illegal += 1
            raise RuntimeError("no")
        if kind == 1:
            self.illegal += 1
            return DepthDecision(illegal[int(random.integers(0, len(illegal)))], 2)
        if kind == 2:
            self.illegal += 1
            depth: Any = [None, False, 2.0, float("nan"), "1"][int(random.integers(0, 5))]
            return DepthDecision(2, depth, Reason.STEADY)
        depth = [int(random.integers(-2, 9)), 10**40, -(10**40), np.int64(2)][int(random.integers(0, 4))]
        return DepthDecision(legal[int(random.integers(0, len(legal)))], depth)

    def observe(self, outcome: StepOutcome) -> None:
        if self._random.integers(0, 10) == 0:
            self.illegal += 1
            raise RuntimeError("no")


@pytest.mark.filterwarnings("error")  # a cast that wraps, a comparison with NaN
@settings(max_examples=80, deadline=None, derandomize=True)
@given(engine_options(WILD), st.integers(0, 10_000), TRAFFIC)
def test_a_hostile_governor_costs_speed_and_nothing_else(
    options: dict[str, object], seed: int, traffic: list[tuple[int, NewRequest]]
) -> None:
    """Each fault is counted, once; the engine serves everybody, as if nothing had been said."""
    core = assemble("h200-qwen3-4b-eagle", "fixed", {}, options, seed).core
    hostile = Hostile(seed)
    guard = GuardedGovernor(hostile, "hostile", K_MAX)
    core._governor = guard
    drive(core, traffic)
    assert guard.errors == hostile.illegal
