"""Tokens by when they came, in bins of 10 ms: rates over any stretch without the records themselves."""

from __future__ import annotations

import numpy as np

from reports.samples import FloatArray, IntArray

BIN_S = 0.01
SECOND = round(1 / BIN_S)


class TokenClock:
    """`add` chunks in any order; memory is 800 bytes for each second of the load."""

    def __init__(self) -> None:
        self._bins: IntArray = np.zeros(0, dtype=np.int64)
        self._first = 0  # number of the first bin; bin b is b * BIN_S .. (b + 1) * BIN_S

    def add(self, times_s: FloatArray, tokens: IntArray) -> None:
        """Chunks: `times_s` float64 (N,), `tokens` int64 (N,)."""
        if not len(times_s):
            return
        places = np.floor(times_s / BIN_S).astype(np.int64)
        self._make_room(int(places.min()), int(places.max()))
        np.add.at(self._bins, places - self._first, tokens)

    def per_s(self, start_s: float, end_s: float) -> float | None:
        """Tokens a second in start_s .. end_s, bins at the edges by their share; None for no time."""
        if not start_s < end_s or not len(self._bins):
            return None
        before = np.concatenate(([0.0], np.cumsum(self._bins)))
        edges = (np.arange(len(before)) + self._first) * BIN_S
        came = np.interp([start_s, end_s], edges, before)
        return float((came[1] - came[0]) / (end_s - start_s))

    def peak_per_s(self) -> float | None:
        """The most tokens in any second that begins with a bin; None before the first token."""
        if not len(self._bins):
            return None
        before = np.concatenate(([0], np.cumsum(self._bins)))
        return float((before[min(SECOND, len(before) - 1) :] - before[: max(1, len(before) - SECOND)]).max())

    def _make_room(self, low: int, high: int) -> None:
        if not len(self._bins):
            self._first = low
        ahead = max(0, self._first - low)
        behind = max(0, high + 1 - self._first - len(self._bins))
        if ahead or behind:
            spare = len(self._bins) // 2 if behind else 0  # grows by halves: no copy for each request
            self._bins = np.pad(self._bins, (ahead, behind + spare))
            self._first -= ahead
