"""From what a vLLM scheduler is about to run to a StepObservation, and from windows back to what it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from governors.contract import (
    AcceptanceHistory,
    DepthLimits,
    FloatArray,
    IntArray,
    StepDurations,
    StepObservation,
)
from governors.vllm_requests import RequestTable, counts_of, draft_counts

RowArray = NDArray[np.intp]


@dataclass(slots=True, eq=False)
class ScheduledStep:
    """A step as scheduled: all its requests (`ids`, `rows`), and those that decode (`decoding`: places).

    `drafted`, `verified`: int64 over the decoding requests; verified is cut by `apply_windows`.
    """

    output: Any
    ids: list[str]
    rows: RowArray
    handles: IntArray
    decoding: NDArray[np.intp] | None  # None = all of them
    drafted: IntArray
    verified: IntArray
    prefill_requests: int
    prefill_tokens: int
    waiting: int
    kv_blocks_free: int
    kv_blocks_total: int
    preempted: int
    durations: StepDurations | None = field(default=None)

    @property
    def decoding_rows(self) -> RowArray:
        return self.rows if self.decoding is None else self.rows[self.decoding]

    @property
    def decoding_handles(self) -> IntArray:
        return self.handles if self.decoding is None else self.handles[self.decoding]


class StepReader:
    """Reads the scheduler's output of each step. A batch unchanged since the step before costs no loop.

    Call `read` after schedule() has filled the output and before it advances num_computed_tokens: at the head
    of _update_after_schedule.
    """

    def __init__(self, limits: DepthLimits) -> None:
        self._limits = limits
        self.table = RequestTable(2 * limits.max_num_seqs, limits.k_max)
        self._ids: list[str] = []
        self._rows: RowArray = np.empty(0, np.intp)
        self._unknown = np.full((0, limits.k_max), np.nan)

    def read(self, scheduler: Any, output: Any) -> ScheduledStep:
        """The step that `output` describes."""
        self.forget(output)
        numbers = output.num_scheduled_tokens
        ids = list(numbers)
        rows = self._rows_of(ids, scheduler.requests)
        tokens, drafts = counts_of(numbers), draft_counts(output.scheduled_spec_decode_tokens, ids)
        decodes = (tokens - drafts == 1) & self.table.prefilled[rows]
        whole = bool(decodes.all())
        decoding = None if whole else np.flatnonzero(decodes)
        drafted = drafts if decoding is None else drafts[decoding]
        pool = scheduler.kv_cache_manager.block_pool
        return ScheduledStep(
            output=output,
            ids=ids,
            rows=rows,
            handles=self.table.handles[rows],
            decoding=decoding,
            drafted=drafted,
            verified=drafted,
            prefill_requests=0 if decoding is None else len(ids) - len(decoding),
            prefill_tokens=0 if whole else int(tokens[~decodes].sum()),
            waiting=scheduler.get_request_counts()[1],
            kv_blocks_free=pool.get_num_free_blocks(),
            kv_blocks_total=pool.num_gpu_blocks,
            preempted=len(output.preempted_req_ids or ()),
        )

    def observe(
        self, step: ScheduledStep, number: int, now_s: float, depth_in_force: int, last: StepDurations | None
    ) -> StepObservation:
        """What the governor sees of it; its arrays are copies, or never change."""
        table, rows = self.table, step.decoding_rows
        return StepObservation(
            step=number,
            now_s=now_s,
            request_ids=_frozen(step.decoding_handles),
            drafts_in_hand=_frozen(step.drafted),
            confidence=self._confidence(len(rows)),
            context_tokens=_frozen(table.context[rows]),
            history=AcceptanceHistory(_frozen(table.reached[rows]), _frozen(table.accepted[rows])),
            prefill_requests=step.prefill_requests,
            prefill_tokens=step.prefill_tokens,
            requests_waiting=step.waiting,
            kv_blocks_free=step.kv_blocks_free,
            kv_blocks_total=step.kv_blocks_total,
            depth_in_force=depth_in_force,
            limits=self._limits,
            durations=last,
        )

    def forget(self, output: Any) -> None:
        """Frees the rows of the requests that `output` names as finished."""
        if self.table.release(output.finished_req_ids):
            self._ids = []  # an id may come again as another request

    def _rows_of(self, ids: list[str], requests: Any) -> RowArray:
        if ids != self._ids:
            self._ids, self._rows = ids, self.table.rows_of(ids)
            self.table.refresh(self._rows, [requests[i] for i in ids])
        elif not self.table.prefilled[self._rows].all():
            self.table.refresh(self._rows, [requests[i] for i in ids])
        return self._rows

    def _confidence(self, batch: int) -> FloatArray:
        """vLLM's drafters hand no confidence to the scheduler: unknown everywhere."""
        if len(self._unknown) < batch:
            self._unknown = np.full((2 * batch, self._limits.k_max), np.nan)
            self._unknown.flags.writeable = False
        return self._unknown[:batch]


def apply_windows(step: ScheduledStep, windows: IntArray) -> None:
    """Cuts the drafts to verify in the scheduler's output. `windows`: int64 over the decoding requests.

    It is exact because nothing of a draft has been booked yet: num_computed_tokens (with async scheduling the
    output placeholders too) advance afterwards, by what is left. KV blocks stay, as after a rejection.
    """
    cut = step.drafted - windows
    places = np.flatnonzero(cut > 0)
    if not len(places):
        return
    drafts, numbers = step.output.scheduled_spec_decode_tokens, step.output.num_scheduled_tokens
    whole = places if step.decoding is None else step.decoding[places]
    for place, window, less in zip(
        whole.tolist(), windows[places].tolist(), cut[places].tolist(), strict=True
    ):
        request_id = step.ids[place]
        if window:
            drafts[request_id] = drafts[request_id][:window]
        else:
            del drafts[request_id]
        numbers[request_id] -= less
    step.output.total_num_scheduled_tokens -= int(cut[places].sum())
    step.verified = np.minimum(step.drafted, windows)


def _frozen(array: NDArray[Any]) -> Any:
    array.flags.writeable = False
    return array
