"""A tally: values, each standing for so many equal samples, in bounded memory whatever their number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reports.samples import FloatArray, IntArray

EXACT = 1 << 21  # values that are kept as they are (32 MB)
MANTISSA = 1 << 13  # beyond it values are rounded to one part in so many: 0.012 %


class Tally:
    """Exact up to EXACT values; beyond it each value is within one part in 8,192 of what it was.

    Rounded values of one request are merged with those of others, so what is kept depends on how many
    different values there are (some 8,192 for each doubling of their range), not on how many came.
    """

    def __init__(self, exact: int = EXACT) -> None:
        self._exact = exact
        self._values: list[FloatArray] = []
        self._counts: list[IntArray] = []
        self._kept = 0

    def add(self, values: FloatArray, counts: IntArray | None = None) -> None:
        """`values` float64 (N,), each standing for `counts` int64 (N,) samples; None = for one."""
        if not len(values):
            return
        self._values.append(values)
        self._counts.append(np.ones(len(values), dtype=np.int64) if counts is None else counts)
        self._kept += len(values)
        if self._kept > self._exact:
            self._merge()

    @property
    def total(self) -> int:
        """Samples."""
        return int(sum(int(counts.sum()) for counts in self._counts))

    def percentiles(self, levels: Sequence[float]) -> list[float] | None:
        """Of the expanded samples, numpy's linear definition; None without a sample."""
        if not self.total:
            return None
        values, counts = np.concatenate(self._values), np.concatenate(self._counts)
        order = np.argsort(values, kind="stable")
        values, ends = values[order], np.cumsum(counts[order])
        rank = (ends[-1] - 1) * np.asarray(levels, dtype=np.float64)
        low = np.floor(rank)
        below = values[np.searchsorted(ends, low, side="right")]
        above = values[np.searchsorted(ends, np.minimum(low + 1, ends[-1] - 1), side="right")]
        return [float(value) for value in below + (rank - low) * (above - below)]

    def _merge(self) -> None:
        mantissas, exponents = np.frexp(np.concatenate(self._values))
        rounded = np.ldexp(np.round(mantissas * MANTISSA) / MANTISSA, exponents)
        values, which = np.unique(rounded, return_inverse=True)
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, which, np.concatenate(self._counts))
        self._values, self._counts, self._kept = [values], [counts], len(values)
        self._exact = max(self._exact, 2 * self._kept)
