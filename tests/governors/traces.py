"""A synthetic trace: load 1 -> 64 -> 1, mixed confidence, some requests without any; one seed, one trace."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from governors.contract import (
    AcceptanceHistory,
    DepthLimits,
    GraphMode,
    StepDurations,
    StepObservation,
    StepOutcome,
)
from governors.replay import TraceStep

LIMITS = DepthLimits(k_max=4, max_num_seqs=64, captured_tokens=(4, 8, 16, 32))
LOADS = (
    [1] * 4 + [2] * 2 + [4] * 3 + [6] * 3 + [16] * 7 + [32] * 3 + [64] * 4
    + [40] * 3 + [20] * 3 + [8] * 3 + [5] * 3 + [3] * 3 + [1] * 4
)  # fmt: skip


class _Request:
    """One request's drafter: how sure it is, whether it says so, and its lifetime counts."""

    def __init__(self, handle: int, draw: random.Random) -> None:
        self.handle = handle
        self.chance = 0.35 + 0.6 * draw.random()
        self.speaks = handle % 4 != 3
        self.context = 128
        self.drafts = 0
        self.reached = [0] * LIMITS.k_max
        self.accepted = [0] * LIMITS.k_max

    def confidence(self, draw: random.Random) -> list[float]:
        said = [round(min(1.0, self.chance * (0.8 + 0.3 * draw.random())), 3) for _ in range(LIMITS.k_max)]
        return [said[p] if self.speaks and p < self.drafts else float("nan") for p in range(LIMITS.k_max)]

    def verify(self, draw: random.Random) -> int:
        """All drafts in hand are verified; how many of them are accepted."""
        for position in range(self.drafts):
            self.reached[position] += 1
            if draw.random() >= self.chance:
                return position
            self.accepted[position] += 1
        return self.drafts


def synthetic_trace(seed: int) -> list[TraceStep]:
    """random.Random keeps its stream between Python versions, so the trace can be checked in."""
    return list(_steps(random.Random(seed)))


def _steps(draw: random.Random) -> Iterator[TraceStep]:
    running: list[_Request] = []
    handles = iter(range(10_000))
    for step, load in enumerate(LOADS):
        arrivals = [_Request(next(handles), draw) for _ in range(load - len(running))]
        running = running[-load:] if load < len(running) else running
        observation = _observe(step, running, len(arrivals), draw)
        accepted = [request.verify(draw) for request in running]
        yield TraceStep(observation, _outcome(observation, accepted))
        for request, count in zip(running, accepted, strict=True):
            request.context += count + 1
        running += arrivals
        for request in running:
            request.drafts = LIMITS.k_max


def _observe(step: int, running: list[_Request], arrivals: int, draw: random.Random) -> StepObservation:
    shape = (len(running), LIMITS.k_max)
    return StepObservation(
        step=step,
        now_s=step * 0.0125,
        request_ids=np.array([request.handle for request in running], dtype=np.int64),
        drafts_in_hand=np.array([request.drafts for request in running], dtype=np.int64),
        confidence=np.array([request.confidence(draw) for request in running], dtype=float).reshape(shape),
        context_tokens=np.array([request.context for request in running], dtype=np.int64),
        history=AcceptanceHistory(
            np.array([request.reached for request in running], dtype=np.int64).reshape(shape),
            np.array([request.accepted for request in running], dtype=np.int64).reshape(shape),
        ),
        prefill_requests=arrivals,
        prefill_tokens=arrivals * 128,
        requests_waiting=0,
        kv_blocks_free=4096 - 16 * len(running),
        kv_blocks_total=4096,
        depth_in_force=LIMITS.k_max,
        limits=LIMITS,
        durations=StepDurations(0.010, None, 0.0125) if step else None,
    )


def _outcome(observation: StepObservation, accepted: list[int]) -> StepOutcome:
    return StepOutcome(
        step=observation.step,
        now_s=observation.now_s + 0.0125,
        request_ids=observation.request_ids,
        verified=observation.drafts_in_hand,
        accepted=np.array(accepted, dtype=np.int64),
        tokens_emitted=sum(accepted) + len(accepted) + observation.prefill_requests,
        durations=StepDurations(0.010, None, 0.0125),
        graph_mode=GraphMode.FULL,
        depth_chosen=LIMITS.k_max,
        depth_executed=LIMITS.k_max,
        prefill_tokens=observation.prefill_tokens,
    )
