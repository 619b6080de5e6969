"""From what vLLM's worker returned to what was accepted: a StepOutcome, and the journal's row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from governors.acceptance import counts_by_position
from governors.contract import GraphMode, IntArray, StepDurations, StepOutcome
from governors.vllm_observation import ScheduledStep
from governors.vllm_requests import RequestTable
from governors.vllm_seat import Sitter


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """Over the decoding requests of a step, int64: `verified` drafts, of those `accepted`, and positions
    `reached` (one more than accepted, where a draft was rejected).

    A request that ended before its output came is not counted (both 0), as in vLLM's own counters.
    """

    verified: IntArray
    accepted: IntArray
    reached: IntArray
    sampled: int


class OutcomeReader:
    """Books acceptance from what the worker returned, and remembers in which order it returns requests."""

    def __init__(self, table: RequestTable) -> None:
        self._table = table
        self._ids: list[str] = []
        self._theirs: list[str] = []
        self._places: NDArray[np.intp] | None = None

    def book(self, step: ScheduledStep, output: Any, ended: Collection[str]) -> Verified:
        """Counts acceptance from `output` (a ModelRunnerOutput) and adds it to the requests' history.

        `ended`: requests that finished since the step was scheduled. Call it before update_from_output.
        """
        table = self._table
        sampled = self._sampled(step, output)
        if ended:
            sampled = np.where([i in ended for i in step.ids], 0, sampled)
        if table.releases != step.releases:  # a row may have gone to another request meanwhile
            sampled = np.where(table.handles[step.rows] == step.handles, sampled, 0)
        table.context[step.rows] += sampled
        mine = sampled if step.decoding is None else sampled[step.decoding]
        verified = _valid(step, output)
        counts = np.empty((2, len(mine)), np.int64)
        reached, accepted = counts[0], counts[1]
        if np.count_nonzero(mine) == len(mine):
            np.minimum(mine - 1, verified, out=accepted)
        else:
            verified = np.where(mine > 0, verified, 0)
            np.maximum(np.minimum(mine - 1, verified), 0, out=accepted)
        np.minimum(accepted + 1, verified, out=reached)
        table.book(step.decoding_rows, counts)
        return Verified(verified, accepted, reached, int(np.add.reduce(sampled)))

    def _sampled(self, step: ScheduledStep, output: Any) -> IntArray:
        """Tokens that came out of each request of the step."""
        tokens = output.sampled_token_ids
        if not tokens:
            return np.zeros(len(step.ids), np.int64)
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        if step.ids != self._ids or output.req_ids != self._theirs:
            self._ids, self._theirs = step.ids, list(output.req_ids)
            place = output.req_id_to_index
            self._places = (
                None if step.ids == self._theirs else np.array([place[i] for i in step.ids], np.intp)
            )
        return lengths if self._places is None else lengths[self._places]


def _valid(step: ScheduledStep, output: Any) -> IntArray:
    """Drafts verified, without those that a grammar had ruled out."""
    invalid: Mapping[str, int] | None = step.output.num_invalid_spec_tokens
    if not invalid:
        return step.verified
    ids = step.ids if step.decoding is None else [step.ids[place] for place in step.decoding]
    return step.verified - np.array([invalid.get(i, 0) for i in ids], np.int64)


@dataclass(slots=True, eq=False)
class StepCourse:
    """A step from its schedule to its record. What is None is not known yet, or never will be."""

    number: int
    start_s: float
    step: ScheduledStep
    sitter: Sitter
    reason: str
    depth_in_force: int
    depth_chosen: int
    verified: Verified | None = None
    end_s: float | None = None
    step_s: float | None = None
    emitted: int = 0
    drafted: int | None = None
    graph_mode: GraphMode = GraphMode.UNKNOWN
    target_s: float | None = None
    draft_s: float | None = None
    timed: bool = False  # its worker was asked for times
    settled: bool = False  # they are in

    @property
    def depth_executed(self) -> int:
        """What the drafter ran; where its worker is out of sight, what it was told to run."""
        return self.depth_chosen if self.drafted is None else self.drafted

    @property
    def durations(self) -> StepDurations:
        return StepDurations(self.target_s, self.draft_s, self.step_s)

    def outcome(self) -> StepOutcome:
        """Only after the step's output has come."""
        assert self.verified is not None
        return StepOutcome(
            step=self.number,
            now_s=self.start_s if self.end_s is None else self.end_s,
            request_ids=self.step.decoding_handles,
            verified=self.verified.verified,
            accepted=self.verified.accepted,
            tokens_emitted=self.emitted,
            durations=self.durations,
            graph_mode=self.graph_mode,
            depth_chosen=self.depth_chosen,
            depth_executed=self.depth_executed,
            prefill_tokens=self.step.prefill_tokens,
        )

    def row(self, k_max: int, faults: int, note: str | None) -> dict[str, object]:
        """The fields of a StepRecord; lists where it has tuples."""
        assert self.verified is not None
        step, seen, verified = self.step, self.verified, self.verified.verified.tolist()
        batch, tokens = len(verified), sum(verified)
        scheduled = tokens if step.verified is seen.verified else int(step.verified.sum())
        accepted_by_position = counts_by_position(seen.accepted, k_max)
        return {
            "step": self.number,
            "start_s": self.start_s,
            "end_s": self.end_s,
            "batch": batch,
            "prefill_requests": step.prefill_requests,
            "prefill_tokens": step.prefill_tokens,
            "waiting": step.waiting,
            "depth_in_force": self.depth_in_force,
            "depth_chosen": self.depth_chosen,
            "depth_executed": self.depth_executed,
            "window_mean": scheduled / batch if batch else None,
            "verified": tokens,
            "accepted": sum(accepted_by_position),
            "emitted": self.emitted,
            "reached_by_position": counts_by_position(seen.reached, k_max),
            "accepted_by_position": accepted_by_position,
            "target_s": self.target_s,
            "draft_s": self.draft_s,
            "step_s": self.step_s,
            "graph_mode": str(self.graph_mode),
            "kv_blocks_free": step.kv_blocks_free,
            "kv_blocks_total": step.kv_blocks_total,
            "preempted": step.preempted,
            "reason": self.reason,
            "governor": self.sitter.name,
            "faults": faults,
            "note": note,
            "request_ids": step.decoding_handles.tolist(),
            "drafted_by_request": verified if step.drafted is seen.verified else step.drafted.tolist(),
            "verified_by_request": verified,
            "accepted_by_request": seen.accepted.tolist(),
        }
