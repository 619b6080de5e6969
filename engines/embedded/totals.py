"""Lifetime counters of the engine: what /metrics publishes under vLLM's names."""

from __future__ import annotations

from dataclasses import dataclass, field

from governors.telemetry import StepRecord


@dataclass(slots=True)
class Totals:
    """Counts since the engine started. Lists have one cell a draft position (k_max).

    drafts               verifications that had at least one draft (vLLM's spec_decode_num_drafts)
    draft_tokens         draft tokens verified; accepted_tokens: of those, accepted
    reached_by_position  verifications whose window held the position and whose earlier drafts all passed
    prompt_tokens        of the requests whose first token left
    prefill_tokens       run by prefills, those computed again after a preemption included
    generation_tokens    tokens emitted to clients
    """

    k_max: int
    steps: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    reached_by_position: list[int] = field(default_factory=list)
    accepted_by_position: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    prefill_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    requests_finished: int = 0
    requests_cancelled: int = 0

    def __post_init__(self) -> None:
        self.reached_by_position = [0] * self.k_max
        self.accepted_by_position = [0] * self.k_max

    def add(self, record: StepRecord, drafts: int, prompt_tokens: int, finished: int) -> None:
        """Books one step."""
        self.steps += 1
        self.drafts += drafts
        self.draft_tokens += record.verified
        self.accepted_tokens += record.accepted
        self.prompt_tokens += prompt_tokens
        self.prefill_tokens += record.prefill_tokens
        self.generation_tokens += record.emitted
        self.preemptions += record.preempted
        self.requests_finished += finished
        if record.verified:
            for position, count in enumerate(record.reached_by_position):
                self.reached_by_position[position] += count
                self.accepted_by_position[position] += record.accepted_by_position[position]
