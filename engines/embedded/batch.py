"""The running requests as a struct of arrays: rows in admission order, decoding ones first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Rows of `ints`. The first three move together with every emitted token.
COMPUTED, EMITTED, TOKENS, HANDLE, LIMIT, DRAFTS, BLOCKS, CLASS, MISSED, STARVED, CELL_END = range(11)
FIELDS = 11
OFFSET, OWN, DRIFT = range(3)
FLOATS = 3


@dataclass(slots=True, eq=False)
class RequestState:
    """One request off the batch: new, or preempted with what it had.

    `ints` (FIELDS,), `floats` (FLOATS,), `history` (2, k_max).
    """

    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    key: np.uint64
    history: NDArray[np.int64]

    @property
    def handle(self) -> int:
        return int(self.ints[HANDLE])


class RunningBatch:
    """Columns of requests. The first `decoding` of `size` decode; at most one, the last, is in mid-prefill.

    FCFS makes this true: a prompt that does not fit the token budget takes all that is left of it, so that no
    later request can overtake it.

    ints     (FIELDS, capacity): tokens computed (in the KV cache), emitted output tokens, tokens (prompt +
             emitted), handle, output limit, drafts in hand, KV blocks held, class, tokens the drafter missed,
             whether the drafts in hand come from a starved drafter, output token at which the drift moves on
    floats   (FLOATS, capacity): acceptance offset in logits = the request's own + its drift, and these two
    history  (2, capacity, k_max): reached and accepted counts over the request's life
    """

    def __init__(self, capacity: int, k_max: int) -> None:
        if capacity < 1:
            raise ValueError(f"max_num_seqs={capacity}: must be at least 1")
        self.capacity = capacity
        self.size = 0
        self.decoding = 0
        self.ints = np.zeros((FIELDS, capacity), dtype=np.int64)
        self.floats = np.zeros((FLOATS, capacity))
        self.keys = np.zeros(capacity, dtype=np.uint64)
        self.history = np.zeros((2, capacity, k_max), dtype=np.int64)

    def append(self, state: RequestState) -> int:
        """Puts a request behind the others; returns its column."""
        column = self.size
        self.ints[:, column] = state.ints
        self.floats[:, column] = state.floats
        self.keys[column] = state.key
        self.history[:, column] = state.history
        self.size += 1
        return column

    def pop(self) -> RequestState:
        """Takes the newest request out, as it is."""
        self.size -= 1
        self.decoding = min(self.decoding, self.size)
        column = self.size
        return RequestState(
            ints=self.ints[:, column].copy(),
            floats=self.floats[:, column].copy(),
            key=self.keys[column],
            history=self.history[:, column].copy(),
        )

    def remove(self, columns: NDArray[np.int64]) -> None:
        """Drops these columns; the order of the others stays."""
        stays = np.ones(self.size, dtype=np.bool_)
        stays[columns] = False
        keep = stays.nonzero()[0]
        kept = len(keep)
        self.decoding -= int((columns < self.decoding).sum())
        self.ints[:, :kept] = self.ints[:, keep]
        self.floats[:, :kept] = self.floats[:, keep]
        self.keys[:kept] = self.keys[keep]
        self.history[:, :kept] = self.history[:, keep]
        self.size = kept

    def column_of(self, handle: int) -> int | None:
        """The column of a running request, None when it does not run."""
        found = (self.ints[HANDLE, : self.size] == handle).nonzero()[0]
        return int(found[0]) if found.size else None
