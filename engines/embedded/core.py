"""The step machine: one call of `step` is one engine step. Pure of clocks: `now_s` is the caller's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.embedded.acceptance import AcceptanceProcess
from engines.embedded.batch import (
    CELL_END,
    CLASS,
    FIELDS,
    HANDLE,
    LIMIT,
    TOKENS,
    RequestState,
)
from engines.embedded.cost import CostModel, StepShape
from engines.embedded.emission import Emitter
from engines.embedded.requests import NewRequest, StepResult
from engines.embedded.scheduler import Plan, Scheduler
from engines.embedded.specs import AcceptanceSpec, PenaltySpec, SchedulerSpec
from engines.embedded.steplog import step_record
from engines.embedded.totals import Totals
from engines.embedded.verification import Verifier
from governors.contract import (
    AcceptanceHistory,
    DepthLimits,
    Governor,
    StepDurations,
    StepObservation,
    StepOutcome,
)
from governors.windows import clamp

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class RequestTooLong(ValueError):
    """A request that can never run here: it exceeds max_model_len or the whole KV cache."""


@dataclass(frozen=True, slots=True)
class CoreSpec:
    """What one engine is.

    speculative     a drafter is loaded
    schedule_armed  the governor may change K at run time (vLLM then turns FULL graphs into PIECEWISE)
    seed            of every acceptance draw
    """

    scheduler: SchedulerSpec
    acceptance: AcceptanceSpec
    penalties: PenaltySpec
    k_max: int
    speculative: bool
    schedule_armed: bool
    seed: int = 0


class EngineCore:
    """Continuous batching with speculation; a step's time comes from `cost`, its depth from `governor`.

    Order of a step: schedule, `decide`, cost, verify, emit, draft, `observe`. Token budget and KV slots are
    reserved for the drafts in hand, before the governor shortens the windows.
    """

    def __init__(self, spec: CoreSpec, cost: CostModel, governor: Governor) -> None:
        if spec.k_max < 0:
            raise ValueError(f"k_max={spec.k_max}: must be 0 (no drafts) or more")
        self.spec = spec
        self.totals = Totals(spec.k_max)
        self.limits = DepthLimits(spec.k_max, spec.scheduler.max_num_seqs, spec.penalties.capture_sizes or ())
        self._cost = cost
        self._governor = governor
        self._scheduler = Scheduler(spec.scheduler, spec.k_max, spec.penalties.draft_budget_tokens)
        self._batch = self._scheduler.batch
        self._process = AcceptanceProcess(spec.acceptance, spec.k_max, spec.seed)
        self._verifier = Verifier(self._batch, self._process, spec.penalties, spec.k_max)
        self._emitter = Emitter(self._scheduler, self._verifier)
        self._no_history = np.zeros((2, spec.k_max), dtype=np.int64)
        self._no_history.setflags(write=False)
        self._next_handle = 0
        self._step = 0
        self._depth_in_force = 0
        self._durations: StepDurations | None = None
        self._begun_s: float | None = None

    @property
    def running(self) -> int:
        """Requests in the batch, prefilling ones included."""
        return self._batch.size

    @property
    def waiting(self) -> int:
        return len(self._scheduler.waiting)

    @property
    def kv_blocks_free(self) -> int:
        return self._scheduler.kv.free

    @property
    def kv_blocks_total(self) -> int:
        return self._scheduler.kv.total

    @property
    def depth_in_force(self) -> int:
        """The depth that the drafter ran at the end of the last step."""
        return self._depth_in_force

    def submit(self, request: NewRequest, now_s: float) -> int:
        """Queues a request behind the others; its handle is never reused.

        Raises RequestTooLong, and ValueError for an empty request or a traffic class without acceptance.
        `now_s` is the driver's clock, for symmetry: the order of calls is the order of service.
        """
        self._check_fits(request)
        trait = self._process.trait(request.traffic_class, request.acceptance_seed)
        ints = [0] * FIELDS
        ints[TOKENS] = request.prompt_tokens
        ints[LIMIT] = request.output_tokens
        ints[HANDLE] = self._next_handle
        ints[CLASS] = trait.class_index
        ints[CELL_END] = self._process.cell_tokens
        state = RequestState(
            ints=np.array(ints, dtype=np.int64),
            floats=np.array((trait.own + trait.drift, trait.own, trait.drift)),
            key=np.uint64(trait.key),
            history=self._no_history,
        )
        self._scheduler.waiting.append(state)
        self._next_handle += 1
        return self._next_handle - 1

    def cancel(self, handle: int) -> bool:
        """Frees a request at once, waiting or running; False when it has ended or never was."""
        found = self._scheduler.cancel(handle)
        self.totals.requests_cancelled += found
        return found

    def step(self, now_s: float) -> StepResult | None:
        """The step that starts at `now_s`; its tokens leave at `record.end_s`. None: nothing to run."""
        plan = self._scheduler.plan(self._lookahead())
        if plan is None:
            return None
        if self._begun_s is None:
            self._begun_s = now_s
        logits = self._logits(plan, now_s - self._begun_s)
        observation = self._observation(plan, logits, now_s)
        decision = self._governor.decide(observation)
        windows, chosen = clamp(decision, observation)
        windows.setflags(write=False)
        executed = self._executed(chosen)
        draft_tokens = int(np.add.reduce(windows))
        shape = self._shape(plan, observation, executed, draft_tokens, _uniform(windows, draft_tokens))
        cost = self._cost.cost(shape)
        verified = self._verifier.verify(plan.decoding, logits, windows, draft_tokens)
        emission = self._emitter.emit(plan, verified.accepted, executed)
        durations = StepDurations(cost.target_s, cost.draft_s, cost.step_s)
        outcome = StepOutcome(
            step=self._step,
            now_s=now_s,
            request_ids=observation.request_ids,
            verified=windows,
            accepted=verified.accepted,
            tokens_emitted=int(np.add.reduce(emission.counts)),
            durations=durations,
            graph_mode=cost.graph_mode,
            depth_chosen=chosen,
            depth_executed=executed,
            prefill_tokens=plan.prefill_tokens,
        )
        self._governor.observe(outcome)
        record = step_record(observation, decision, outcome, verified, cost, plan.preempted)
        self.totals.add(record, verified.drafts, plan.prompt_tokens, len(emission.finished))
        self._step += 1
        self._depth_in_force = executed
        self._durations = durations
        return StepResult(record, emission.handles, emission.counts, emission.finished)

    def _check_fits(self, request: NewRequest) -> None:
        prompt, output = request.prompt_tokens, request.output_tokens
        if prompt < 1 or output < 1:
            raise ValueError(f"prompt_tokens={prompt}, output_tokens={output}: both must be at least 1")
        scheduler = self.spec.scheduler
        if prompt + output > scheduler.max_model_len:
            raise RequestTooLong(
                f"{prompt} prompt + {output} output tokens exceed max_model_len={scheduler.max_model_len}: "
                "shorten one of them"
            )
        drafts = 2 * self.spec.k_max if self.spec.speculative else 0
        slots = min(prompt + output - 1 + drafts, scheduler.max_model_len)
        cached = scheduler.kv_blocks * scheduler.block_size
        if slots > cached:
            raise RequestTooLong(
                f"{prompt} prompt + {output} output tokens need {slots} KV slots (drafts included), "
                f"the cache has {cached}: raise kv_blocks or shorten the request"
            )

    def _lookahead(self) -> int:
        if not self.spec.speculative:
            return 0
        return self.spec.k_max if self.spec.penalties.lookahead_static else self._depth_in_force

    def _executed(self, chosen: int) -> int:
        """What the drafter really runs."""
        if not self.spec.speculative:
            return 0
        ignored = self.spec.penalties.policy_ignored
        return chosen if ignored is None else min(ignored, self.spec.k_max)

    def _logits(self, plan: Plan, engine_s: float) -> FloatArray | None:
        """Acceptance logits of the drafts in hand, None when nobody holds a draft."""
        depth = int(plan.drafts[plan.drafts.argmax()]) if plan.decoding else 0
        return self._verifier.logits(plan.decoding, depth, engine_s) if depth else None

    def _observation(self, plan: Plan, logits: FloatArray | None, now_s: float) -> StepObservation:
        count = plan.decoding
        both = self._batch.ints[TOKENS : HANDLE + 1, :count].copy()
        history = self._batch.history[:, :count].copy()
        for array in (both, history, plan.drafts):
            array.setflags(write=False)
        context, ids = both
        return StepObservation(
            step=self._step,
            now_s=now_s,
            request_ids=ids,
            drafts_in_hand=plan.drafts,
            confidence=self._verifier.confidence(count, logits, plan.drafts),
            context_tokens=context,
            history=AcceptanceHistory(history[0], history[1]),
            prefill_requests=len(plan.parts),
            prefill_tokens=plan.prefill_tokens,
            requests_waiting=self.waiting,
            kv_blocks_free=self.kv_blocks_free,
            kv_blocks_total=self.kv_blocks_total,
            depth_in_force=self._depth_in_force,
            limits=self.limits,
            durations=self._durations,
        )

    def _shape(
        self, plan: Plan, observation: StepObservation, executed: int, draft_tokens: int, uniform: bool
    ) -> StepShape:
        count = plan.decoding
        return StepShape(
            decode_requests=count,
            decode_tokens=draft_tokens + count,
            decode_uniform=uniform,
            prefill_requests=len(plan.parts),
            prefill_tokens=plan.prefill_tokens,
            context_tokens=int(np.add.reduce(observation.context_tokens)),
            prefill_context_tokens=plan.prefill_context_tokens,
            depth_next=executed,
            draft_requests=count + plan.prefills_done,
            depth_changed=self._step > 0 and executed != self._depth_in_force,
            schedule_armed=self.spec.schedule_armed,
            speculative=self.spec.speculative,
        )


def _uniform(windows: IntArray, total: int) -> bool:
    """All windows are equal; so are none at all. `total`: their sum."""
    return total == 0 or int(windows[windows.argmax()]) * len(windows) == total
