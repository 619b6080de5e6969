"""Which drafts are worth verifying: the global choice of DSpark, arXiv:2607.05147, Algorithm 1.

Rank all drafts in hand by survival, the likeliest first. Admitting the first m of them gives tau = B + (sum
of their survival) expected tokens in a step of n = B + m verified tokens; Theta = tau / seconds(n).
Survival falls along a request, so the first m drafts are a prefix of every request's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from governors.contract import FloatArray, IntArray

Stop = Callable[[FloatArray], int]
SingleArray = NDArray[np.float32]

ALL: Final = 0.0  # a floor that every draft in hand reaches
SPARE: Final = 256
ABOVE_ROUNDING: Final = 1.0 + 1e-9  # a sum of a million terms in double precision is closer than this


def first_peak(theta: FloatArray) -> int:
    """Early stop, as Algorithm 1: admit while Theta rises. It stalls at a stair's edge."""
    falls = theta[1:] <= theta[:-1]
    return int(falls.argmax()) if falls.any() else len(falls)


def highest(theta: FloatArray) -> int:
    """Global argmax; the fewest drafts win a tie."""
    return int(theta.argmax())


class Admission:
    """Chooses verify windows with one `stop`, step after step.

    Mostly a few drafts of a large batch are admitted, and to rank all of them is what costs most. So only
    those at or above `floor` are ranked, which is a survival SPARE ranks below the choice of the step before;
    each of the others is taken to survive with `floor`, though it is less likely to. If even so the choice
    falls among the ranked, it is the right one; if not, all are ranked. What comes out does not depend on
    `floor`.
    """

    def __init__(self, stop: Stop, floor: float = ALL) -> None:
        self._stop = stop
        self._floor = float(np.float32(floor))

    def windows(self, survival: FloatArray, drafts: int, seconds: FloatArray) -> IntArray:
        """Verify windows, int64 (B,).

        survival  float64 (B, k_max), 0..1, falling along a row, below 0 where there is no draft
        drafts    drafts in hand over the batch, M
        seconds   float64 (M + 1,): the step's time when 0..M drafts are admitted
        A tie in survival goes to the earlier request, then the earlier position. Ranked in single precision,
        which sorts twice as fast: survivals closer than 1e-7 are a tie.
        """
        single = survival.astype(np.float32)
        ranked, count = self._choice(single, drafts, seconds)
        if count > len(ranked):
            self._floor = ALL
            ranked, count = self._choice(single, drafts, seconds)
        spare = count + SPARE
        if 2 * spare > drafts:
            self._floor = ALL
        elif spare < len(ranked):
            self._floor = float(ranked[spare])
        if count == 0:
            return np.zeros(len(survival), dtype=np.int64)
        threshold = ranked[count - 1]
        if count == len(ranked) or ranked[count] < threshold:
            return _row_counts(single >= threshold)
        return _split_tie(single, threshold, count)

    def _choice(self, single: SingleArray, drafts: int, seconds: FloatArray) -> tuple[SingleArray, int]:
        """(survival of the drafts ranked, the likeliest first; how many drafts to admit, of all)."""
        flat = single.ravel(order="K")
        if self._floor == ALL:
            ranked = np.sort(flat)[::-1][:drafts]
        else:
            ranked = np.sort(flat[flat >= self._floor])[::-1]
        known = len(ranked)
        tau = np.empty(drafts + 1)
        tau[0] = len(single)
        tau[1 : known + 1] = ranked
        np.add.accumulate(tau[: known + 1], out=tau[: known + 1])
        if known < drafts:
            more = np.arange(1, drafts - known + 1) * (self._floor * ABOVE_ROUNDING)
            np.add(more, tau[known] * ABOVE_ROUNDING, out=tau[known + 1 :])
        return ranked, self._stop(tau / seconds)


def _split_tie(survival: SingleArray, threshold: np.float32, count: int) -> IntArray:
    admitted = survival > threshold
    tied = np.flatnonzero(survival == threshold)
    admitted.flat[tied[: count - np.count_nonzero(admitted)]] = True
    return _row_counts(admitted)


def _row_counts(admitted: NDArray[np.bool_]) -> IntArray:
    """True values by row."""
    rows: IntArray = np.add.reduce(admitted, axis=1, dtype=np.int64)
    return rows
