"""Hand-made observations and outcomes: a test states what it is about, the rest has plain defaults."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from governors.contract import (
    AcceptanceHistory,
    DepthLimits,
    GraphMode,
    StepDurations,
    StepObservation,
    StepOutcome,
)

Rows = Sequence[Sequence[float]]


def observation(
    batch: int = 1,
    *,
    k_max: int = 3,
    max_num_seqs: int = 64,
    drafts: Sequence[int] | None = None,
    confidence: Rows | None = None,
    reached: Rows | None = None,
    accepted: Rows | None = None,
    prefill_requests: int = 0,
    prefill_tokens: int = 0,
    requests_waiting: int = 0,
    step: int = 0,
) -> StepObservation:
    """`batch` decoding requests with k_max drafts in hand each and no confidence, unless said otherwise."""
    shape = (batch, k_max)
    hand = np.full(batch, k_max) if drafts is None else np.array(drafts)
    return StepObservation(
        step=step,
        now_s=0.01 * step,
        request_ids=np.arange(batch, dtype=np.int64),
        drafts_in_hand=hand.astype(np.int64),
        confidence=np.full(shape, np.nan)
        if confidence is None
        else np.array(confidence, float).reshape(shape),
        context_tokens=np.full(batch, 200, dtype=np.int64),
        history=AcceptanceHistory(_counts(reached, shape), _counts(accepted, shape)),
        prefill_requests=prefill_requests,
        prefill_tokens=prefill_tokens,
        requests_waiting=requests_waiting,
        kv_blocks_free=1000,
        kv_blocks_total=1000,
        depth_in_force=k_max,
        limits=DepthLimits(k_max=k_max, max_num_seqs=max_num_seqs),
        durations=None,
    )


def outcome(verified: Sequence[int], accepted: Sequence[int], step: int = 0) -> StepOutcome:
    """What the target made of one step's windows."""
    return StepOutcome(
        step=step,
        now_s=0.01 * step,
        request_ids=np.arange(len(verified), dtype=np.int64),
        verified=np.array(verified, dtype=np.int64),
        accepted=np.array(accepted, dtype=np.int64),
        tokens_emitted=sum(accepted) + len(accepted),
        durations=StepDurations(0.008, 0.001, 0.01),
        graph_mode=GraphMode.FULL,
        depth_chosen=0,
        depth_executed=0,
    )


def _counts(rows: Rows | None, shape: tuple[int, int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.zeros(shape, dtype=np.int64) if rows is None else np.array(rows, dtype=np.int64)
