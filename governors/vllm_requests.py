"""The requests of a running scheduler as rows of arrays: handle, context, history; freed with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from governors.contract import IntArray

RowArray = NDArray[np.intp]


class RequestLike(Protocol):
    """What is read of a vLLM Request (the same in every version tried)."""

    num_computed_tokens: int
    num_output_placeholders: int

    @property
    def num_tokens(self) -> int: ...


class RequestTable:
    """Rows are reused after `release`; a handle never is. Arrays double when more requests than rows live.

    handles  int64 (rows,); -1 = free
    context  int64 (rows,); prompt + output known to the scheduler
    ready    bool (rows,); all but the last token is computed: it decodes, one token and its drafts a step

    Acceptance counts (reached and accepted, see governors.contract.AcceptanceHistory) are int64 (2, rows,
    k_max). Those of the batch asked for last lie in an array of their own, since the next step nearly always
    asks for the same batch; it is replaced, never written into, so that whoever was given it may keep it.
    """

    def __init__(self, rows: int, k_max: int) -> None:
        self._rows: dict[str, int] = {}
        self._free = list(range(rows - 1, -1, -1))
        self._issued = 0
        self.k_max = k_max
        self.handles = np.full(rows, -1, np.int64)
        self.context = np.zeros(rows, np.int64)
        self.ready = np.zeros(rows, np.bool_)
        self.releases = 0  # a row may have gone to another request since this last changed
        self._counts = np.zeros((2, rows, k_max), np.int64)
        self._batch: RowArray | None = None
        self._batch_counts = self._counts[:, :0]
        self._first = np.tri(k_max + 1, k_max, -1, np.int64)  # row n: ones at the first n positions

    def __len__(self) -> int:
        return len(self._rows)

    def rows_of(self, ids: Iterable[str]) -> RowArray:
        """Rows in the order of `ids`; a request not seen before gets one, with an empty history."""
        self._settle()
        known = self._rows
        return np.array([known[i] if i in known else self._admit(i) for i in ids], np.intp)

    def refresh(self, rows: RowArray, requests: Iterable[RequestLike]) -> None:
        """Reads context and progress of each request: a Python loop, for steps whose batch changed."""
        seen = [(r.num_tokens, r.num_output_placeholders - r.num_computed_tokens) for r in requests]
        tokens, ahead = np.array(seen, np.int64).reshape(-1, 2).T
        self.context[rows] = tokens
        self.ready[rows] = tokens + ahead <= 1

    def release(self, ids: Iterable[str]) -> bool:
        """Forgets requests that ended; whether there was any."""
        gone = [row for row in (self._rows.pop(i, None) for i in ids) if row is not None]
        if gone:
            self._settle()
            self.handles[gone] = -1
            self._free.extend(gone)
            self.releases += 1
        return bool(gone)

    def preempt(self, ids: Iterable[str]) -> None:
        """These must compute their tokens again."""
        for request_id in ids:
            if request_id in self._rows:
                self.ready[self._rows[request_id]] = False

    def history(self, rows: RowArray) -> tuple[IntArray, IntArray]:
        """(reached, accepted) of these rows, read-only; later bookings do not show in them."""
        counts = self._counts_of(rows)
        return counts[0], counts[1]

    def book(self, rows: RowArray, counts: IntArray) -> None:
        """Adds one verification each: `counts` (2, rows), how many first positions were reached, accepted."""
        total = self._counts_of(rows) + self._first.take(counts, axis=0)
        total.flags.writeable = False
        self._batch_counts = total

    def _counts_of(self, rows: RowArray) -> IntArray:
        if rows is not self._batch:
            self._settle()
            self._batch, self._batch_counts = rows, self._counts[:, rows]
            self._batch_counts.flags.writeable = False
        return self._batch_counts

    def _settle(self) -> None:
        if self._batch is not None:
            self._counts[:, self._batch] = self._batch_counts
            self._batch = None

    def _admit(self, request_id: str) -> int:
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._rows[request_id] = row
        self.handles[row] = self._issued
        self._issued += 1
        self._counts[:, row] = 0
        return row

    def _grow(self) -> None:
        rows = len(self.handles)
        self._free = list(range(2 * rows - 1, rows - 1, -1))
        self.handles = _doubled(self.handles, -1)
        self.context = _doubled(self.context, 0)
        self.ready = _doubled(self.ready, False)
        self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)), axis=1)


def _doubled(array: NDArray[Any], fill: object) -> NDArray[Any]:
    return np.concatenate((array, np.full_like(array, fill)))
