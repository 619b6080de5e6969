"""Which requests run in a step, and with how many tokens: vLLM V1's FCFS rules over batch and waiting queue.

Running requests first, in admission order; then the waiting queue while sequences, token budget and KV blocks
allow. A prompt larger than the budget runs in chunks. When blocks run out the newest running request loses
its own, goes to the front of the queue and will be computed again (prompt and output so far); nothing is
admitted in such a step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.embedded.batch import (
    BLOCKS,
    COMPUTED,
    DRAFTS,
    MISSED,
    STARVED,
    TOKENS,
    RequestState,
    RunningBatch,
)
from engines.embedded.kv import KvBlocks
from engines.embedded.specs import SchedulerSpec


@dataclass(frozen=True, slots=True)
class PrefillPart:
    """A prompt or a chunk of one, in `column` of the batch.

    `cached`: tokens computed before; `last`: it emits a token; `first_token_of`: tokens of the prompt whose
    first output token this part emits, else 0.
    """

    column: int
    tokens: int
    cached: int
    last: bool
    first_token_of: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One step: the first `decoding` columns decode with `drafts` (decoding,) in hand, prompts beside them.

    `prefill_tokens`, `prefill_context_tokens`: of all parts, to compute and computed before; `prefills_done`:
    parts that emit a token; `prompt_tokens`: of the prompts whose first output token leaves in this step.
    """

    decoding: int
    drafts: NDArray[np.int64]
    preempted: int
    parts: tuple[PrefillPart, ...] = ()
    prefill_tokens: int = 0
    prefill_context_tokens: int = 0
    prefills_done: int = 0
    prompt_tokens: int = 0


class Scheduler:
    """Moves requests between the waiting queue and the batch, and their blocks out of and into the pool.

    `draft_budget`: drafts that a step may verify in all, those of the oldest requests first; None = no bound.
    """

    def __init__(self, spec: SchedulerSpec, k_max: int, draft_budget: int | None = None) -> None:
        if spec.max_num_batched_tokens < 1:
            raise ValueError(f"max_num_batched_tokens={spec.max_num_batched_tokens}: must be at least 1")
        self.spec = spec
        self._k_max = k_max
        self._draft_budget = draft_budget
        self.batch = RunningBatch(spec.max_num_seqs, k_max)
        self.waiting: deque[RequestState] = deque()
        self.kv = KvBlocks(spec.kv_blocks, spec.block_size)

    def plan(self, lookahead: int) -> Plan | None:
        """Schedules one step with KV slots for `lookahead` drafts beyond it; None: nothing to run."""
        batch = self.batch
        if not batch.size and not self.waiting:
            return None
        granted, preempted = self._grant_running(lookahead)
        decoding = min(batch.decoding, len(granted))
        parts: list[PrefillPart] = []
        if len(granted) > batch.decoding:
            parts.append(self._part(batch.decoding, int(granted[-1])))
        if not preempted and self.waiting:
            self._admit(self.spec.max_num_batched_tokens - int(granted.sum()), parts)
        drafts = granted[:decoding] - 1
        if not parts:
            return Plan(decoding, drafts, preempted)
        return Plan(
            decoding=decoding,
            drafts=drafts,
            preempted=preempted,
            parts=tuple(parts),
            prefill_context_tokens=sum(part.cached for part in parts),
            prefill_tokens=sum(part.tokens for part in parts),
            prefills_done=sum(part.last for part in parts),
            prompt_tokens=sum(part.first_token_of for part in parts),
        )

    def release(self, columns: NDArray[np.int64]) -> None:
        """Requests that ended: their blocks return to the pool."""
        self.kv.give_back(int(self.batch.ints[BLOCKS, columns].sum()))
        self.batch.remove(columns)

    def cancel(self, handle: int) -> bool:
        """Frees a request at once, wherever it is; False when it is not here (any more)."""
        column = self.batch.column_of(handle)
        if column is not None:
            self.release(np.array([column]))
            return True
        for index, state in enumerate(self.waiting):
            if state.handle == handle:
                del self.waiting[index]
                return True
        return False

    def _grant_running(self, lookahead: int) -> tuple[NDArray[np.int64], int]:
        """Tokens (> 0) for the leading columns that fit budget and blocks; and how many were preempted."""
        size = self.batch.size
        ints = self.batch.ints[:, :size]
        ahead = ints[TOKENS] + self._drafts(ints[DRAFTS])
        granted = ahead - ints[COMPUTED]
        budget = self.spec.max_num_batched_tokens
        may_exceed = size > self.batch.decoding or size * (self._k_max + 1) > budget
        if may_exceed and int(granted.sum()) > budget:
            before = np.cumsum(granted) - granted
            granted = np.minimum(granted, budget - before)
            granted = granted[: np.count_nonzero(granted > 0)]
            ahead = ints[COMPUTED, : len(granted)] + granted
        count = len(granted)
        ahead += lookahead
        np.minimum(ahead, self.spec.max_model_len, out=ahead)
        extra = self.kv.missing(ahead, ints[BLOCKS, :count])
        preempted = 0
        taken = int(extra.sum())
        short = taken - self.kv.free
        while short > 0:
            freed = self._preempt()
            preempted += 1
            if self.batch.size < count:
                count = self.batch.size
                freed += int(extra[count])
                taken -= int(extra[count])
            short -= freed
        self.kv.take(taken)
        ints[BLOCKS, :count] += extra[:count]
        return granted[:count], preempted

    def _drafts(self, in_hand: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of the drafts in hand, those that the budget for drafts leaves."""
        if self._draft_budget is None:
            return in_hand
        before = np.cumsum(in_hand) - in_hand
        left: NDArray[np.int64] = np.clip(self._draft_budget - before, 0, in_hand)
        return left

    def _preempt(self) -> int:
        """The newest request to the front of the queue, to be computed again; returns the blocks it held."""
        state = self.batch.pop()
        freed = int(state.ints[BLOCKS])
        self.kv.give_back(freed)
        for field in (COMPUTED, DRAFTS, BLOCKS, MISSED, STARVED):
            state.ints[field] = 0
        self.waiting.appendleft(state)
        return freed

    def _admit(self, budget: int, parts: list[PrefillPart]) -> None:
        """vLLM gives a prompt's first chunk no lookahead: its drafts come after the last chunk."""
        while self.waiting and budget > 0 and self.batch.size < self.spec.max_num_seqs:
            state = self.waiting[0]
            tokens = min(int(state.ints[TOKENS]), budget)
            blocks = self.kv.blocks_for(tokens)
            if blocks > self.kv.free:
                return
            self.waiting.popleft()
            self.kv.take(blocks)
            state.ints[BLOCKS] = blocks
            parts.append(self._part(self.batch.append(state), tokens))
            budget -= tokens

    def _part(self, column: int, tokens: int) -> PrefillPart:
        cached, emitted, held = self.batch.ints[: TOKENS + 1, column].tolist()
        last = cached + tokens == held
        return PrefillPart(column, tokens, cached, last, held if last and not emitted else 0)
