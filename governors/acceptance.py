"""Acceptance by position, learnt from what was observed; what no window reached stays unknown (censoring)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from operator import mul

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
        self._prior = conditional_of(prior, k_max).tolist()
        self._weight = prior_weight
        self._keep = 1.0 - 1.0 / window_steps
        self._k_max = k_max
        self._reached = [0.0] * k_max
        self._accepted = [0.0] * k_max

    def observe(self, outcome: StepOutcome) -> None:
        reach = np.minimum(outcome.verified, outcome.accepted + 1)
        reached = counts_by_position(reach, self._k_max)
        accepted = counts_by_position(outcome.accepted, self._k_max)
        for position, count in enumerate(reached):
            if count:
                self._reached[position] = self._reached[position] * self._keep + count
                self._accepted[position] = self._accepted[position] * self._keep + accepted[position]

    def conditional(self) -> list[float]:
        """By position; an unknown one carries on the one before it; all NaN if nothing is known."""
        estimate, before = [], math.nan
        for accepted, reached, prior in zip(self._accepted, self._reached, self._prior, strict=True):
            weight = 0.0 if math.isnan(prior) else self._weight
            if reached + weight > 0:
                before = (accepted + weight * (prior if weight else 0.0)) / (reached + weight)
            estimate.append(before)
        return estimate

    def unconditional(self) -> list[float]:
        """By position: a_p, the running product of the conditional rates."""
        return list(accumulate(self.conditional(), mul))
