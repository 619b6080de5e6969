"""One StepRecord from the parts of a step."""

from __future__ import annotations

from engines.embedded.cost import StepCost
from engines.embedded.verification import Verified
from governors.contract import DepthDecision, StepObservation, StepOutcome
from governors.telemetry import StepRecord


def step_record(
    observation: StepObservation,
    decision: DepthDecision,
    outcome: StepOutcome,
    verified: Verified,
    cost: StepCost,
    preempted: int,
) -> StepRecord:
    """`lag_s` is 0: the record runs on the model's own clock; a wall-clock driver replaces it."""
    batch = observation.batch
    return StepRecord(
        step=observation.step,
        start_s=observation.now_s,
        end_s=observation.now_s + cost.step_s,
        batch=batch,
        prefill_requests=observation.prefill_requests,
        prefill_tokens=observation.prefill_tokens,
        waiting=observation.requests_waiting,
        depth_in_force=observation.depth_in_force,
        depth_chosen=outcome.depth_chosen,
        depth_executed=outcome.depth_executed,
        window_mean=verified.draft_tokens / batch if batch else None,
        verified=verified.draft_tokens,
        accepted=verified.accepted_tokens,
        emitted=outcome.tokens_emitted,
        reached_by_position=verified.reached_by_position,
        accepted_by_position=verified.accepted_by_position,
        target_s=cost.target_s,
        draft_s=cost.draft_s,
        step_s=cost.step_s,
        graph_mode=str(outcome.graph_mode),
        kv_blocks_free=observation.kv_blocks_free,
        kv_blocks_total=observation.kv_blocks_total,
        preempted=preempted,
        reason=str(decision.reason),
        lag_s=0.0,
    )
