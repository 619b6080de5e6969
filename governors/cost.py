"""Step costs out of a Profile, laid out densely so that a policy only slices and divides."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from governors.contract import DepthLimits, FloatArray, IntArray
from governors.profile import Profile


class StepGrid:
    """Served step seconds by load and depth: bilinear in the profile's grid.

    A load outside the measured batches is clamped: it costs as the nearest one measured. A depth outside the
    measured depths is never a candidate, since a clamped price would make it look free.

    depths   int64 (D,), ascending: the measured depths up to k_max, or with `between` every depth up to the
             deepest of them
    usable   False when the table is empty, holds a zero, offers less than two depths, or costs the same at
             every depth (an uninitialised table, which would pin any argmax to the deepest)
    """

    def __init__(self, profile: Profile | None, limits: DepthLimits, between: bool = False) -> None:
        self.depths: IntArray = np.empty(0, dtype=np.int64)
        self._rows: FloatArray = np.empty((0, 0))
        if profile is not None and profile.batches and profile.depths:
            self._fill(profile, limits, between)
        rows = self._rows
        self.usable = len(self.depths) > 1 and bool((rows > 0).all() and (np.ptp(rows, axis=1) > 0).any())

    def _fill(self, profile: Profile, limits: DepthLimits, between: bool) -> None:
        measured = np.array(profile.depths, dtype=np.int64)
        depths = measured[measured <= limits.k_max]
        if between and len(depths):
            deepest = min(int(measured[-1]), limits.k_max)
            depths = np.arange(depths[0], deepest + 1, dtype=np.int64)
        loads = np.arange(limits.max_num_seqs + 1)
        by_depth = np.array([np.interp(depths, measured, row) for row in profile.step_s])
        columns = [np.interp(loads, profile.batches, column) for column in by_depth.T]
        self.depths = depths
        self._rows = np.array(columns).T if columns else np.empty((0, 0))

    def seconds(self, load: int) -> FloatArray:
        """Seconds of a step at `load` requests for each of `depths`, float64 (D,)."""
        row: FloatArray = self._rows[min(load, len(self._rows) - 1)]
        return row


class StaircaseCost:
    """Seconds of a target step by verified tokens n, bonus tokens included.

    Up to the largest captured size a step is padded up to the next captured size, so the cost is a step
    function: the profile's table read (linearly) at that size. Above it the step runs uncaptured: linear
    through the points measured there, flat before the first of them; with none measured, on from the last
    stair at the slope of the last two. Without captured sizes the table is read linearly throughout. Beyond
    the table its last slope goes on. (vllm#47808: step function below the capture limit, linear above.)

    usable   False when the table has less than two points, holds a zero, or is flat (uninitialised)
    """

    def __init__(self, profile: Profile | None, dense_tokens: int) -> None:
        tokens, seconds = (profile.verify_tokens, profile.verify_s) if profile else ((), ())
        self._tokens = np.array(tokens, dtype=np.float64)
        self._seconds = np.array(seconds, dtype=np.float64)
        self._stairs = np.array(profile.captured_tokens if profile else (), dtype=np.int64)
        self.usable = len(seconds) > 1 and min(seconds) > 0 and min(seconds) < max(seconds)
        self._dense = self.seconds(np.arange(dense_tokens + 1)) if self.usable else np.empty(0)

    def seconds(self, tokens: ArrayLike) -> FloatArray:
        """Seconds at each of `tokens`; any shape, any count."""
        counts = np.asarray(tokens, dtype=np.float64)
        if not len(self._stairs):
            return _line(counts, self._tokens, self._seconds)
        limit = self._stairs[-1]
        padded = self._stairs[np.minimum(np.searchsorted(self._stairs, counts), len(self._stairs) - 1)]
        return np.where(counts <= limit, self._stair(padded), self._uncaptured(counts))

    def between(self, low: int, high: int) -> FloatArray:
        """Seconds at low, low+1, ..., high tokens; do not write into it."""
        if high < len(self._dense):
            return self._dense[low : high + 1]
        return self.seconds(np.arange(low, high + 1))

    def _stair(self, padded: IntArray) -> FloatArray:
        inside = self._tokens <= self._stairs[-1]
        if not inside.any():
            return np.full(padded.shape, self._seconds[0])
        return _line(padded.astype(np.float64), self._tokens[inside], self._seconds[inside])

    def _uncaptured(self, counts: FloatArray) -> FloatArray:
        outside = self._tokens > self._stairs[-1]
        if outside.any():
            return _line(counts, self._tokens[outside], self._seconds[outside])
        last = self._stairs[-2:]
        return _line(counts, last.astype(np.float64), self._stair(last))


def _line(counts: FloatArray, tokens: FloatArray, seconds: FloatArray) -> FloatArray:
    """Linear between the points, flat before the first, on at the last slope (never falling) behind them."""
    slope = (seconds[-1] - seconds[-2]) / (tokens[-1] - tokens[-2]) if len(tokens) > 1 else 0.0
    beyond = np.maximum(counts - tokens[-1], 0.0) * max(float(slope), 0.0)
    return np.asarray(np.interp(counts, tokens, seconds) + beyond, dtype=np.float64)


def draft_seconds(profile: Profile | None, limits: DepthLimits) -> FloatArray:
    """Seconds to draft k_max tokens by decoding requests, 0..max_num_seqs; zeros if the profile has none."""
    loads = np.arange(limits.max_num_seqs + 1)
    if profile is None or profile.draft_s is None or not profile.batches:
        return np.zeros(len(loads))
    return np.asarray(np.interp(loads, profile.batches, profile.draft_s), dtype=np.float64)
