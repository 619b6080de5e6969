"""Acceptance by position, learnt from what was observed; what no window reached stays unknown (censoring)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from governors.contract import FloatArray, IntArray, StepOutcome


def conditional_of(unconditional: Sequence[float], k_max: int) -> FloatArray:
    """float64 (k_max,): c_1 = a_1, c_p = a_p / a_{p-1}; the last one is carried on; NaN if there is none."""
    given = np.array(unconditional[:k_max], dtype=np.float64)
    before = np.concatenate(([1.0], given[:-1])) if len(given) else given
    known = np.divide(given, before, out=np.zeros_like(given), where=before > 0)
    tail = known[-1] if len(known) else np.nan
    return np.concatenate((known, np.full(k_max - len(known), tail)))


def counts_by_position(counts: IntArray, k_max: int) -> list[int]:
    """How many of `counts` (int64, each in 0..k_max) exceed each position 0..k_max-1."""
    histogram = np.bincount(counts, minlength=k_max + 1).tolist()
    return list(accumulate(histogram[:0:-1]))[::-1]


class PositionAcceptance:
    """Conditional acceptance by position over all requests, forgetting with a window of steps.

    Position p counts in a step only for the requests whose earlier drafts were all accepted and whose verify
    window reached p. A position that nobody reached keeps its estimate: it is neither decayed nor taken for a
    rejection. The prior counts as `prior_weight` verifications and is never forgotten.
    """

    def __init__(self, prior: Sequence[float], k_max: int, window_steps: int, prior_weight: float) -> None:
        self._prior = conditional_of(prior, k_max)
        self._weight = prior_weight
        self._keep = 1.0 - 1.0 / window_steps
        self._positions = np.arange(k_max)
        self._reached = np.zeros(k_max)
        self._accepted = np.zeros(k_max)

    def observe(self, outcome: StepOutcome) -> None:
        reach = np.minimum(outcome.verified, outcome.accepted + 1)
        reached = (reach[:, None] > self._positions).sum(axis=0)
        accepted = (outcome.accepted[:, None] > self._positions).sum(axis=0)
        keep = np.where(reached > 0, self._keep, 1.0)
        self._reached = self._reached * keep + reached
        self._accepted = self._accepted * keep + accepted

    def conditional(self) -> FloatArray:
        """float64 (k_max,); an unknown position carries on the one before it; all NaN if nothing is known."""
        counts = zip(self._accepted.tolist(), self._reached.tolist(), self._prior.tolist(), strict=True)
        estimate, before = [], math.nan
        for accepted, reached, prior in counts:
            weight = 0.0 if math.isnan(prior) else self._weight
            if reached + weight > 0:
                before = (accepted + weight * (prior if weight else 0.0)) / (reached + weight)
            estimate.append(before)
        return np.array(estimate, dtype=np.float64)

    def unconditional(self) -> FloatArray:
        """float64 (k_max,): a_p, the running product of the conditional rates."""
        return np.asarray(np.cumprod(self.conditional()), dtype=np.float64)
