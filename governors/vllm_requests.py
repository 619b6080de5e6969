"""The requests of a running scheduler as rows of arrays: handle, context, history; freed with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from governors.contract import IntArray

BoolArray = NDArray[np.bool_]


class RequestLike(Protocol):
    """What is read of a vLLM Request (the same in every version tried)."""

    num_prompt_tokens: int
    num_computed_tokens: int

    @property
    def num_tokens(self) -> int: ...


class RequestTable:
    """Rows are reused after `release`; a handle never is. Arrays double when more requests than rows live.

    handles  int64 (rows,); -1 = free
    context  int64 (rows,); prompt + output known to the scheduler
    prefilled  bool (rows,); the whole prompt was computed before
    reached, accepted  int64 (rows, k_max); see governors.contract.AcceptanceHistory
    """

    def __init__(self, rows: int, k_max: int) -> None:
        self._rows: dict[str, int] = {}
        self._free = list(range(rows - 1, -1, -1))
        self._issued = 0
        self.handles = np.full(rows, -1, np.int64)
        self.context = np.zeros(rows, np.int64)
        self.prefilled = np.zeros(rows, np.bool_)
        self.reached = np.zeros((rows, k_max), np.int64)
        self.accepted = np.zeros((rows, k_max), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def rows_of(self, ids: Iterable[str]) -> NDArray[np.intp]:
        """Rows in the order of `ids`; a request not seen before gets one, with an empty history."""
        known = self._rows
        return np.array([known[i] if i in known else self._admit(i) for i in ids], np.intp)

    def refresh(self, rows: NDArray[np.intp], requests: Iterable[RequestLike]) -> None:
        """Reads context and progress of each request: a Python loop, for steps whose batch changed."""
        seen = [(r.num_tokens, r.num_computed_tokens >= r.num_prompt_tokens) for r in requests]
        self.context[rows] = [tokens for tokens, _ in seen]
        self.prefilled[rows] = [done for _, done in seen]

    def release(self, ids: Iterable[str]) -> bool:
        """Forgets requests that ended; whether there was any."""
        gone = [row for row in (self._rows.pop(i, None) for i in ids) if row is not None]
        for row in gone:
            self.handles[row] = -1
        self._free.extend(gone)
        return bool(gone)

    def book(self, rows: NDArray[np.intp], reached: BoolArray, accepted: BoolArray) -> None:
        """Adds one verification each; rows are distinct."""
        self.reached[rows] += reached
        self.accepted[rows] += accepted

    def _admit(self, request_id: str) -> int:
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._rows[request_id] = row
        self.handles[row] = self._issued
        self._issued += 1
        self.context[row] = 0
        self.prefilled[row] = False
        self.reached[row] = 0
        self.accepted[row] = 0
        return row

    def _grow(self) -> None:
        rows = len(self.handles)
        self._free = list(range(2 * rows - 1, rows - 1, -1))
        self.handles = _doubled(self.handles, -1)
        self.context = _doubled(self.context, 0)
        self.prefilled = _doubled(self.prefilled, False)
        self.reached = _doubled(self.reached, 0)
        self.accepted = _doubled(self.accepted, 0)


def counts_of(numbers: Mapping[str, int]) -> IntArray:
    """The values of a dict of counts, in its order."""
    return np.fromiter(numbers.values(), np.int64, len(numbers))


def draft_counts(drafts: Mapping[str, list[int]], ids: list[str]) -> IntArray:
    """How many drafts each of `ids` has in `drafts`; vLLM leaves out requests without any."""
    if len(drafts) == len(ids) and list(drafts) == ids:
        return np.fromiter(map(len, drafts.values()), np.int64, len(ids))
    none: list[int] = []
    return np.array([len(drafts.get(i, none)) for i in ids], np.int64)


def _doubled(array: NDArray[Any], fill: object) -> NDArray[Any]:
    more = np.full_like(array, fill)
    return np.concatenate((array, more))
