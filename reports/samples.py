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

    Exact. The cumulative counts of each unit over the sorted values are made once (units * N integers: keep
    units to tens); every draw is then a bisection over their weighted sum.
    """
    distinct, which = np.unique(weights, axis=0, return_inverse=True)  # of three units there are ten
    order = np.argsort(of.values, kind="stable")
    values, counts, units = of.values[order], of.counts[order], of.units[order]
    cumulative = np.zeros((of.n_units, len(values)), dtype=np.int64)
    cumulative[units, np.arange(len(values))] = counts
    np.cumsum(cumulative, axis=1, out=cumulative)
    totals = distinct @ cumulative[:, -1]
    found = np.empty((len(distinct), len(levels)))
    for column, level in enumerate(levels):
        rank = (np.maximum(totals, 1) - 1) * level
        low = np.floor(rank).astype(np.int64)
        below = values[_bisect(cumulative, distinct, low)]
        above = values[_bisect(cumulative, distinct, np.minimum(low + 1, np.maximum(totals, 1) - 1))]
        found[:, column] = below + (rank - low) * (above - below)
    drawn: FloatArray = found[which.reshape(-1)]
    return drawn


def _bisect(cumulative: IntArray, weights: IntArray, rank: IntArray) -> IntArray:
    """For each draw the first index at which the weighted cumulative count exceeds `rank`: shape (draws,)."""
    low = np.zeros(len(weights), dtype=np.int64)
    high = np.full(len(weights), cumulative.shape[1] - 1, dtype=np.int64)
    while np.any(low < high):
        middle = (low + high) // 2
        reached = np.einsum("du,ud->d", weights, cumulative[:, middle]) > rank
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    return low
