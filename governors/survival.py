"""Survival: the probability that a request's drafts are accepted up to and including a position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from governors.acceptance import conditional_of
from governors.contract import AcceptanceHistory, FloatArray, StepObservation

NOT_IN_HAND = -1.0
_LONG_ROW: Final = 64

MaskArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Survival:
    """`table`: float64 (B, k_max), falling along a row; NOT_IN_HAND where there is no draft.

    drafts: drafts in hand over the batch.
    blind: some draft in hand had no confidence, so that acceptance history stood in for it.
    """

    table: FloatArray
    drafts: int
    blind: bool


class SurvivalModel:
    """s[i,k] = product of the confidences of request i up to position k, cut to 0..1.

    A NaN confidence of a draft in hand is replaced by acceptance: the request's own history, shrunk towards
    the batch's (as `weight` verifications), which is shrunk towards the profile's acceptance (as `weight`
    more), or towards `unknown` where the profile has none.

    Inside, tables are (k_max, B): long rows are what numpy is fast along.
    """

    def __init__(self, acceptance: Sequence[float], k_max: int, unknown: float, weight: float) -> None:
        prior = conditional_of(acceptance, k_max)
        self._weight = weight
        self._weighted_prior = weight * np.where(np.isnan(prior), unknown, prior)[:, None]
        self._positions = np.arange(k_max)[:, None]

    def survival(self, observation: StepObservation) -> Survival:
        drafts = int(np.add.reduce(observation.drafts_in_hand))
        confidence = observation.confidence
        whole = drafts == confidence.size
        outside = None if whole else self._positions >= observation.drafts_in_hand
        unknown = np.isnan(confidence)
        if np.count_nonzero(unknown) == confidence.size:  # no drafter's head: nothing to mix
            table, blind = self._fallback(observation.history), drafts > 0
        else:
            table, blind = self._mixed(observation, unknown.T, outside)
        _multiply_down(table)
        if outside is not None:
            table[outside] = NOT_IN_HAND
        return Survival(table.T, drafts, blind)

    def _mixed(
        self, observation: StepObservation, unknown: MaskArray, outside: MaskArray | None
    ) -> tuple[FloatArray, bool]:
        """(confidence, acceptance where it is unknown and 0 where there is no draft; whether any was)."""
        table: FloatArray = np.maximum(observation.confidence.T, 0.0, order="C")
        if outside is not None:
            table[outside] = 0.0
            unknown = unknown & ~outside
        blind = bool(unknown.any())
        if blind:
            np.copyto(table, self._fallback(observation.history), where=unknown)
        np.minimum(table, 1.0, out=table)
        return table, blind

    def _fallback(self, history: AcceptanceHistory) -> FloatArray:
        reached = history.reached.T.astype(np.float64, order="C")
        accepted = history.accepted.T.astype(np.float64, order="C")
        in_all = np.add.reduce(accepted, axis=1, keepdims=True)
        of_all = np.add.reduce(reached, axis=1, keepdims=True)
        accepted += self._weight * ((in_all + self._weighted_prior) / (of_all + self._weight))
        reached += self._weight
        accepted /= reached
        return accepted


def _multiply_down(table: FloatArray) -> None:
    """Running products over the positions, in place; accumulate() takes the elements one by one."""
    if table.shape[1] < _LONG_ROW:
        np.multiply.accumulate(table, axis=0, out=table)
        return
    for before, here in pairwise(table):
        np.multiply(before, here, out=here)
