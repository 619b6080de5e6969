"""The seam between the step machine and the cost model: a step's shape in, its durations out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from governors.contract import GraphMode


@dataclass(frozen=True, slots=True)
class StepShape:
    """All that the cost of a step depends on. Token counts are totals over the step.

    decode_requests    decoding requests, B
    decode_tokens      tokens the target runs for them: sum of (window_i + 1)
    decode_uniform     True if every decoding request has the same window (FULL graphs need it)
    prefill_requests, prefill_tokens
    context_tokens     KV tokens read by the decoding requests' attention, summed
    prefill_context_tokens  KV tokens already cached for the prefill parts, summed
    depth_next         drafts to propose after this forward (after penalties: what the drafter really runs)
    draft_requests     requests the drafter runs for (decoding, and prefills that finish in this step)
    depth_changed      depth_next differs from the depth executed in the step before
    schedule_armed     the governor may change K at run time (vLLM then overrides FULL by PIECEWISE)
    speculative        a drafter is loaded at all (False: the arm "off" without a drafter)
    """

    decode_requests: int
    decode_tokens: int
    decode_uniform: bool
    prefill_requests: int
    prefill_tokens: int
    context_tokens: int
    prefill_context_tokens: int
    depth_next: int
    draft_requests: int
    depth_changed: bool
    schedule_armed: bool
    speculative: bool


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds, all of them modelled. `step_s` >= target_s + draft_s: the rest is host time and penalties."""

    target_s: float
    draft_s: float
    step_s: float
    graph_mode: GraphMode


class CostModel(Protocol):
    """Deterministic given its seed: a PIECEWISE host jitter draws from the model's own generator."""

    def cost(self, shape: StepShape) -> StepCost: ...
