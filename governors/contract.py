"""The governor contract: what a policy sees before a step, what it decides, and what then happened.

One engine step t runs like this (vLLM's order, kept here):

1. The scheduler picks the requests of the step. Decoding request i holds `drafts_in_hand[i]` draft tokens
   that the drafter proposed at the end of step t-1.
2. `decide(observation)` answers two questions. `windows`: how many of the drafts in hand to verify now.
   `depth_next`: how many to draft at the end of this step, to be verified at t+1 (the one-step lag).
3. The target verifies, emits `accepted + 1` tokens a decoding request (the bonus token), the drafter drafts.
4. `observe(outcome)` reports what really ran. It can differ from the decision: book to `depth_executed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Reason(StrEnum):
    """Why a decision came out as it did; a K trace is coloured by it."""

    STEADY = "steady"
    RAISED = "raised"
    BACKED_OFF = "backed-off"
    OVERLOADED = "overloaded"
    PROBED = "probed"
    NO_MODEL = "no-model"


class GraphMode(StrEnum):
    """How the target's forward ran (vLLM's CUDA-graph runtime modes)."""

    FULL = "full"
    PIECEWISE = "piecewise"
    NONE = "none"  # eager: above the captured sizes, or graphs are off
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DepthLimits:
    """What the engine can do at all. `captured_tokens`: ascending graph sizes in tokens; empty: not known."""

    k_max: int
    max_num_seqs: int
    captured_tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StepDurations:
    """Seconds. None = not measured. `step_s` is schedule to schedule, so it holds host time too."""

    target_s: float | None
    draft_s: float | None
    step_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class AcceptanceHistory:
    """Lifetime counts of each decoding request, int64 of shape (B, k_max); row i belongs to `request_ids[i]`.

    `reached[i, p]`: verifications in which every draft before position p was accepted and position p was
    in the window. `accepted[i, p]`: those in which position p was accepted too. Their quotient is the
    *conditional* acceptance at p; 0/0 is unknown. Positions beyond every window so far are censored.
    """

    reached: IntArray
    accepted: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class StepObservation:
    """What a scheduler knows before step `step`. Arrays are over the B decoding requests and read-only.

    now_s            engine clock, seconds; only differences mean anything
    request_ids      int64 (B,); an engine-wide handle, never reused while a governor lives
    drafts_in_hand   int64 (B,); 0..k_max
    confidence       float64 (B, k_max); the drafter's conditional acceptance probability of the drafts in
                     hand, NaN = unknown (no head, or no draft at that position)
    context_tokens   int64 (B,); prompt + output so far
    history          acceptance counts of these requests
    prefill_requests, prefill_tokens   prompts (or parts) scheduled in the same step
    requests_waiting queue length after scheduling
    depth_in_force   the depth that was *executed* at the end of the last step
    durations        of the last step; None before the first
    """

    step: int
    now_s: float
    request_ids: IntArray
    drafts_in_hand: IntArray
    confidence: FloatArray
    context_tokens: IntArray
    history: AcceptanceHistory
    prefill_requests: int
    prefill_tokens: int
    requests_waiting: int
    kv_blocks_free: int
    kv_blocks_total: int
    depth_in_force: int
    limits: DepthLimits
    durations: StepDurations | None

    @property
    def batch(self) -> int:
        """Decoding requests in the step."""
        return len(self.request_ids)

    @property
    def scheduled_requests(self) -> int:
        """All requests in the step, prefill included: what vLLM keys its schedule on."""
        return len(self.request_ids) + self.prefill_requests


@dataclass(frozen=True, slots=True, eq=False)
class DepthDecision:
    """`windows`: drafts to verify now, one number for all or int64 (B,), each clipped to the drafts in hand.

    `depth_next`: drafts to propose at the end of this step, 0..k_max; 0 = plain decoding (which is not
    "no proposer work": an engine may still run a drafter forward to keep its state).
    """

    windows: int | IntArray
    depth_next: int
    reason: Reason = Reason.STEADY


@dataclass(frozen=True, slots=True, eq=False)
class StepOutcome:
    """What happened in step `step`. Arrays are over the decoding requests of that step.

    verified         int64 (B,); draft tokens the target verified for the request
    accepted         int64 (B,); of those, accepted; emitted tokens are accepted + 1 (less at a stop)
    tokens_emitted   all tokens that left the step, first tokens of finished prefills included
    depth_chosen     the decision's depth_next after clamping; depth_executed: what the drafter really ran
    """

    step: int
    now_s: float
    request_ids: IntArray
    verified: IntArray
    accepted: IntArray
    tokens_emitted: int
    durations: StepDurations
    graph_mode: GraphMode
    depth_chosen: int
    depth_executed: int
    prefill_tokens: int = 0


class Governor(Protocol):
    """A policy. Pure of clocks, files and threads; randomness comes from a seed given at construction.

    So a recorded trace replays bit for bit. `decide` is called once a step that has at least one request,
    decoding or prefilling; `observe` once after each such step, in the same order.
    """

    def decide(self, observation: StepObservation) -> DepthDecision: ...

    def observe(self, outcome: StepOutcome) -> None: ...
