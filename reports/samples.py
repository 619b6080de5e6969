"""Samples: the values of one metric over the requests of a cell, and their percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """`values` float64 (N,), each standing for `counts` int64 (N,) >= 1 equal samples.

    `units` int64 (N,): what a value is resampled with (its request, or its repeat), 0 .. n_units-1.
    """

    values: FloatArray
    counts: IntArray
    units: IntArray
    n_units: int

    @property
    def total(self) -> int:
        """Samples, each counted as often as it stands for."""
        return int(self.counts.sum())


def samples(values: FloatArray, counts: IntArray, units: IntArray, n_units: int) -> Samples | None:
    """Samples without those that stand for nothing; None when none is left: the metric is unknown."""
    kept = counts > 0
    if not kept.any():
        return None
    if kept.all():
        return Samples(values, counts, units, n_units)
    return Samples(values[kept], counts[kept], units[kept], n_units)


def pooled(repeats: Sequence[Samples | None]) -> Samples | None:
    """All repeats in one, each repeat a unit; None when any repeat lacks the metric."""
    parts = [part for part in repeats if part is not None]
    if not parts or len(parts) < len(repeats):
        return None
    return Samples(
        values=np.concatenate([part.values for part in parts]),
        counts=np.concatenate([part.counts for part in parts]),
        units=np.repeat(np.arange(len(parts)), [len(part.values) for part in parts]),
        n_units=len(parts),
    )


def percentiles(of: Samples, levels: Sequence[float]) -> FloatArray:
    """Percentiles of the expanded samples, numpy's linear definition: shape (len(levels),)."""
    return resampled_percentiles(of, np.ones((1, of.n_units), dtype=np.int64), levels).reshape(-1)


def resampled_percentiles(of: Samples, weights: IntArray, levels: Sequence[float]) -> FloatArray:
    """Percentiles when unit u is taken `weights[d, u]` times in draw d: shape (draws, len(levels)).

    Exact: every draw is a bisection over the sorted values, of which each unit knows how many of its own lie
    below. Memory is some 24 bytes a value, whatever the number of units.
    """
    distinct, which = np.unique(weights, axis=0, return_inverse=True)  # of three units there are ten
    values = np.sort(of.values)
    below = [_Cumulative.of(of, unit) for unit in range(of.n_units)]
    totals = distinct @ np.array([unit.counts[-1] for unit in below])
    found = np.empty((len(distinct), len(levels)))
    for column, level in enumerate(levels):
        rank = (np.maximum(totals, 1) - 1) * level
        low = np.floor(rank).astype(np.int64)
        left = values[_bisect(values, below, distinct, low)]
        right = values[_bisect(values, below, distinct, np.minimum(low + 1, np.maximum(totals, 1) - 1))]
        found[:, column] = left + (rank - low) * (right - left)
    drawn: FloatArray = found[which.reshape(-1)]
    return drawn


@dataclass(frozen=True, slots=True, eq=False)
class _Cumulative:
    """`counts[i]`: samples of one unit among its i smallest values; int64 (n + 1,)."""

    values: FloatArray
    counts: IntArray

    @classmethod
    def of(cls, all_units: Samples, unit: int) -> _Cumulative:
        own = np.flatnonzero(all_units.units == unit)
        order = own[np.argsort(all_units.values[own])]
        counts = np.concatenate([[0], np.cumsum(all_units.counts[order])])
        return cls(all_units.values[order], counts)

    def up_to(self, limits: FloatArray) -> IntArray:
        """Samples that are at most `limits`: same shape."""
        found: IntArray = self.counts[np.searchsorted(self.values, limits, side="right")]
        return found


def _bisect(values: FloatArray, below: Sequence[_Cumulative], weights: IntArray, rank: IntArray) -> IntArray:
    """For each draw the first of `values` up to which the weighted count exceeds `rank`: shape (draws,)."""
    low = np.zeros(len(weights), dtype=np.int64)
    high = np.full(len(weights), len(values) - 1, dtype=np.int64)
    while np.any(low < high):
        middle = (low + high) // 2
        counts = np.stack([unit.up_to(values[middle]) for unit in below])
        reached = np.einsum("du,ud->d", weights, counts) > rank
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    return low
