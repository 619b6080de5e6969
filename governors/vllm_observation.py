"""From what a vLLM scheduler is about to run to a StepObservation, and from windows back to what it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from governors.vllm_requests import RequestTable, RowArray


@dataclass(slots=True, eq=False)
class ScheduledStep:
    """A step as scheduled: all its requests (`ids`, `rows`), and those that decode (`decoding`: places).

    `drafted`, `verified`: int64 over the decoding requests; verified is cut by `apply_windows`.
    """

    output: Any
    ids: list[str]
    rows: RowArray
    handles: IntArray
    decoding: RowArray | None  # None = all of them
    decoding_rows: RowArray
    drafted: IntArray
    verified: IntArray
    prefill_requests: int
    prefill_tokens: int
    waiting: int
    kv_blocks_free: int
    kv_blocks_total: int
    preempted: int
    releases: int  # of the table, when this was read

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
        self._handles: IntArray = np.empty(0, np.int64)
        self._all_ready = False  # every request of the batch decodes, and none was set back since
        self._unknown = np.full((0, limits.k_max), np.nan)

    def read(self, scheduler: Any, output: Any) -> ScheduledStep:
        """The step that `output` describes."""
        self.forget(output)
        numbers = output.num_scheduled_tokens
        ids = list(numbers)
        rows = self._rows_of(ids, scheduler.requests)
        tokens = np.fromiter(numbers.values(), np.int64, len(ids))
        decoding, drafted = self._split(ids, rows, tokens, output.scheduled_spec_decode_tokens)
        prompts = 0 if decoding is None else len(ids) - len(decoding)
        pool = scheduler.kv_cache_manager.block_pool
        return ScheduledStep(
            output=output,
            ids=ids,
            rows=rows,
            decoding_rows=rows if decoding is None else rows[decoding],
            handles=self._handles,
            decoding=decoding,
            drafted=drafted,
            verified=drafted,
            prefill_requests=prompts,
            prefill_tokens=int(tokens.sum() - drafted.sum()) - len(drafted) if prompts else 0,
            waiting=scheduler.get_request_counts()[1],
            kv_blocks_free=pool.get_num_free_blocks(),
            kv_blocks_total=pool.num_gpu_blocks,
            preempted=len(output.preempted_req_ids or ()),
            releases=self.table.releases,
        )

    def _split(
        self, ids: list[str], rows: RowArray, tokens: IntArray, drafts: dict[str, list[int]]
    ) -> tuple[RowArray | None, IntArray]:
        """(places that decode, None = all; how many drafts each of them verifies).

        A request that is ready has one token and its drafts scheduled: they need not be counted. Where that
         does not add up (a request was set back behind our back), they are.
        """
        drafted = tokens - 1
        ready = None if self._all_ready else self.table.ready[rows]
        if ready is not None:
            drafted = drafted[ready]
        if np.count_nonzero(drafted) != len(drafts):
            none: list[int] = []
            counted = np.array([len(drafts.get(i, none)) for i in ids], np.int64)
            adds_up = tokens - counted == 1
            ready = adds_up if ready is None else ready & adds_up
            drafted = counted[ready]
        if ready is None or len(drafted) == len(ids):
            return None, drafted
        return ready.nonzero()[0], drafted

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
            history=AcceptanceHistory(*table.history(rows)),
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
        if output.finished_req_ids and self.table.release(output.finished_req_ids):
            self._ids = []  # an id may come again as another request
        if output.preempted_req_ids:
            self.table.preempt(output.preempted_req_ids)
            self._all_ready = False

    def _rows_of(self, ids: list[str], requests: Any) -> RowArray:
        table = self.table
        if ids != self._ids:
            self._ids, self._rows = ids, table.rows_of(ids)
            self._handles = _frozen(table.handles[self._rows])
            table.refresh(self._rows, [requests[i] for i in ids])
        elif self._all_ready:
            return self._rows
        else:
            places = np.flatnonzero(~table.ready[self._rows])
            table.refresh(self._rows[places], [requests[ids[place]] for place in places])
        self._all_ready = bool(table.ready[self._rows].all())
        return self._rows

    def _confidence(self, batch: int) -> FloatArray:
        """vLLM's drafters hand no confidence to the scheduler: unknown everywhere."""
        if len(self._unknown) < batch:
            self._unknown = np.full((2 * batch, self._limits.k_max), np.nan)
            self._unknown.flags.writeable = False
        return self._unknown[:batch]


def apply_windows(step: ScheduledStep, windows: IntArray, blanks: Sequence[list[int]] | None = None) -> None:
    """Cuts the drafts to verify in the scheduler's output. `windows`: int64 over the decoding requests.

    It is exact because nothing of a draft has been booked yet: num_computed_tokens (with async scheduling the
    output placeholders too) advance afterwards, by what is left. KV blocks stay, as after a rejection.
    `blanks`: the drafts are -1 each, their tokens are in the worker (async scheduling). blanks[n] is n of
    them, shared, as vLLM shares its own, since nobody writes into it.
    """
    if windows is step.drafted:
        return
    verified = np.minimum(step.drafted, windows)
    places = (verified < step.drafted).nonzero()[0]
    if not len(places):
        return
    whole = places if step.decoding is None else step.decoding.take(places)
    ids = step.ids if len(whole) == len(step.ids) else map(step.ids.__getitem__, whole.tolist())
    drafts, numbers = step.output.scheduled_spec_decode_tokens, step.output.num_scheduled_tokens
    for request_id, window in zip(ids, verified.take(places).tolist(), strict=True):
        numbers[request_id] = window + 1
        if not window:
            del drafts[request_id]  # vLLM leaves out requests without drafts
        elif blanks is not None:
            drafts[request_id] = blanks[window]
        else:
            drafts[request_id] = drafts[request_id][:window]
    step.output.total_num_scheduled_tokens -= int(np.add.reduce(step.drafted) - np.add.reduce(verified))
    step.verified = verified


def _frozen(array: NDArray[Any]) -> Any:
    array.flags.writeable = False
    return array
