"""Which drafts are worth verifying: the global choice of DSpark, arXiv:2607.05147, Algorithm 1.

Rank all drafts in hand by survival, the likeliest first. Admitting the first m of them gives tau = B + (sum
of their survival) expected tokens in a step of n = B + m verified tokens; Theta = tau / seconds(n).
Survival falls along a request, so the first m drafts are a prefix of every request's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from governors.contract import FloatArray, IntArray

Stop = Callable[[FloatArray], int]


def first_peak(theta: FloatArray) -> int:
    """Early stop, as Algorithm 1: admit while Theta rises. It stalls at a stair's edge."""
    falls = theta[1:] <= theta[:-1]
    return int(falls.argmax()) if falls.any() else len(falls)


def highest(theta: FloatArray) -> int:
    """Global argmax; the fewest drafts win a tie."""
    return int(theta.argmax())


def admitted_windows(survival: FloatArray, drafts: int, seconds: FloatArray, stop: Stop) -> IntArray:
    """Verify windows, int64 (B,).

    survival  float64 (B, k_max), falling along a row, below 0 where there is no draft
    drafts    drafts in hand over the batch, M
    seconds   float64 (M + 1,): the step's time when 0..M drafts are admitted
    A tie in survival goes to the earlier request, then the earlier position. Ranked in single precision,
    which sorts twice as fast: survivals closer than 1e-7 are a tie.
    """
    single = survival.astype(np.float32)
    ranked = np.sort(single, axis=None)[::-1][:drafts]
    tau = np.empty(drafts + 1)
    tau[0] = len(survival)
    tau[1:] = ranked
    np.add.accumulate(tau, out=tau)
    count = stop(tau / seconds)
    if count == 0:
        return np.zeros(len(survival), dtype=np.int64)
    threshold = ranked[count - 1]
    if count == drafts or ranked[count] < threshold:
        return _row_counts(single >= threshold)
    return _split_tie(single, threshold, count)


def _split_tie(survival: NDArray[np.float32], threshold: np.float32, count: int) -> IntArray:
    admitted = survival > threshold
    tied = np.flatnonzero(survival == threshold)
    admitted.reshape(-1)[tied[: count - np.count_nonzero(admitted)]] = True
    return _row_counts(admitted)


def _row_counts(admitted: NDArray[np.bool_]) -> IntArray:
    """True values by row; a product with ones is exact here and twice as fast as a sum along short rows."""
    return (admitted @ np.ones(admitted.shape[1])).astype(np.int64)
