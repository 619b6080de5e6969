"""The end of a step: tokens leave, new drafts come to hand, requests that reached their limit go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.embedded.batch import COMPUTED, DRAFTS, EMITTED, HANDLE, LIMIT, TOKENS
from engines.embedded.scheduler import Plan, Scheduler
from engines.embedded.verification import Verifier

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Emission:
    """`handles[i]` emitted `counts[i]` > 0 tokens; `finished` handles ended with them."""

    handles: IntArray
    counts: IntArray
    finished: IntArray


class Emitter:
    """Moves the batch to the state after a step. A block that crosses the output limit is cut there."""

    def __init__(self, scheduler: Scheduler, verifier: Verifier) -> None:
        self._scheduler = scheduler
        self._batch = scheduler.batch
        self._verifier = verifier

    def emit(self, plan: Plan, accepted: IntArray, depth: int) -> Emission:
        """`accepted` (plan.decoding,); `depth`: what the drafter runs now, verified at the next step."""
        ints = self._batch.ints
        count = plan.decoding
        tokens = np.minimum(accepted + 1, ints[LIMIT, :count] - ints[EMITTED, :count])
        ints[: TOKENS + 1, :count] += tokens  # COMPUTED, EMITTED and TOKENS
        self._verifier.feed(slice(0, count), tokens, depth)
        columns: slice | IntArray = slice(0, count)
        if plan.parts:
            columns = self._prefilled(plan, depth)
            tokens = np.concatenate((tokens, np.ones(plan.prefills_done, dtype=np.int64)))
        self._draft(columns, depth)
        self._verifier.drift()
        return self._leave(columns, tokens)

    def _prefilled(self, plan: Plan, depth: int) -> slice | IntArray:
        """Books the prompt parts; returns the columns that emit in this step."""
        ints = self._batch.ints
        for part in plan.parts:
            ints[COMPUTED, part.column] += part.tokens
            self._verifier.feed(part.column, part.tokens, depth)
        first = self._batch.decoding
        last = first + plan.prefills_done
        ints[EMITTED, first:last] += 1
        ints[TOKENS, first:last] += 1
        self._batch.decoding = last
        if plan.decoding == first:
            return slice(0, last)
        return np.concatenate((np.arange(plan.decoding), np.arange(first, last)))

    def _draft(self, columns: slice | IntArray, depth: int) -> None:
        """No draft may stand beyond max_model_len."""
        ints = self._batch.ints
        if depth:
            room = (self._scheduler.spec.max_model_len - 1) - ints[TOKENS, columns]
            ints[DRAFTS, columns] = np.minimum(room, depth)
        else:
            ints[DRAFTS, columns] = 0

    def _leave(self, columns: slice | IntArray, tokens: IntArray) -> Emission:
        ints = self._batch.ints
        handles = ints[HANDLE, columns].copy()
        done = (ints[EMITTED, columns] >= ints[LIMIT, columns]).nonzero()[0]
        finished = handles[done]
        if done.size:
            self._scheduler.release(done if isinstance(columns, slice) else columns[done])
        return Emission(handles, tokens, finished)
