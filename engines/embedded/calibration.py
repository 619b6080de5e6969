"""Logit offsets per draft position, so that a population of unlike requests shows the published acceptance.

A request's conditional acceptance at position p is sigmoid(theta_p + z), z ~ N(0, sd^2) over requests and
time. Engines publish accepted_p / drafts, counted over verification *rounds* at full depth. Two selections
act on it: requests that survive to position p are the better ones, and poor requests need more rounds for the
same text (at z a round yields T(z) = 1 + sum_p S_p(z) tokens), S_p(z) being prod_{j<=p} sigmoid(theta_j + z):

    E_z[S_p(z) / T(z)] / E_z[1 / T(z)] = a_p    for every published p

This takes z as constant over a round. A drift as fast as a block (drift_tokens around 8 at K=4) makes the
rates come out some .005 high.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LOGIT_LIMIT = 40.0  # sigmoid(40) rounds to 1: an acceptance of exactly 0 or 1 stays exact
_NODES = 96
_TOLERANCE = 1e-12


class AcceptanceCurveError(ValueError):
    """A published curve that no drafter can have; names the class, the position and the mend."""


def sigmoid(logits: FloatArray) -> FloatArray:
    """Elementwise 1 / (1 + exp(-x)); quiet for any |x| <= 700."""
    out = np.negative(logits)
    np.exp(out, out=out)
    out += 1.0
    return np.reciprocal(out, out=out)


def check_curve(traffic_class: str, curve: tuple[float, ...]) -> None:
    """Raises AcceptanceCurveError unless 1 >= a_1 >= a_2 ... >= 0."""
    if not curve:
        raise AcceptanceCurveError(f"acceptance.{traffic_class} is empty: give at least a_1")
    previous = 1.0
    for position, value in enumerate(curve, start=1):
        if not 0.0 <= value <= previous:
            raise AcceptanceCurveError(
                f"acceptance.{traffic_class} a_{position}={value}: unconditional acceptance must lie in "
                f"[0, {previous}] (it cannot rise with the position); conditional rates must be multiplied up"
            )
        previous = value


def extended(curve: tuple[float, ...], length: int) -> tuple[float, ...]:
    """The curve carried on at its last *conditional* rate, for drafts deeper than was published."""
    values = list(curve)
    before_last = curve[-2] if len(curve) > 1 else 1.0
    ratio = curve[-1] / before_last if before_last > 0 else 0.0
    while len(values) < length:
        values.append(values[-1] * ratio)
    return tuple(values)


@lru_cache(maxsize=256)
def logit_offsets(curve: tuple[float, ...], sd: float, length: int) -> tuple[float, ...]:
    """theta_1..theta_length for the published `curve`; exact logits of a_p / a_{p-1} when sd is 0."""
    full = extended(curve, max(length, len(curve)))
    ratios = [_ratio(full, p) for p in range(len(full))]
    if sd == 0.0:
        return tuple(_logit(ratio) for ratio in ratios[:length])
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    z = sd * nodes
    theta = np.array([_logit(ratio) for ratio in ratios])
    for _ in range(200):
        previous = theta
        theta = _solve_positions(full, z, weights / _tokens_per_round(theta[: len(curve)], z), theta)
        if np.abs(theta - previous).max() < _TOLERANCE:
            break
    return tuple(float(value) for value in theta[:length])


def _tokens_per_round(theta: FloatArray, z: FloatArray) -> FloatArray:
    survival = np.cumprod(sigmoid(theta[:, None] + z[None, :]), axis=0)
    return np.asarray(1.0 + survival.sum(axis=0), dtype=np.float64)


def _solve_positions(
    curve: tuple[float, ...], z: FloatArray, weights: FloatArray, start: FloatArray
) -> FloatArray:
    """One theta after the other: given those before it, position p is one monotone equation."""
    survivors = weights / weights.sum()
    theta = np.empty(len(curve))
    for position, target in enumerate(curve):
        total = float(survivors.sum())
        if total <= 0.0 or target in (0.0, total) or abs(start[position]) >= LOGIT_LIMIT:
            theta[position] = start[position]
        else:
            theta[position] = _solve_one(target, z, survivors)
        survivors = survivors * sigmoid(theta[position] + z)
    return theta


def _solve_one(target: float, z: FloatArray, survivors: FloatArray) -> float:
    """Bisection of sum(survivors * sigmoid(theta + z)) = target over [-LOGIT_LIMIT, LOGIT_LIMIT]."""
    low, high = -LOGIT_LIMIT, LOGIT_LIMIT
    while high - low > _TOLERANCE:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if float(survivors @ sigmoid(middle + z)) < target:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _ratio(curve: tuple[float, ...], position: int) -> float:
    before = curve[position - 1] if position else 1.0
    return curve[position] / before if before > 0.0 else 0.0


def _logit(probability: float) -> float:
    if probability <= 0.0:
        return -LOGIT_LIMIT
    if probability >= 1.0:
        return LOGIT_LIMIT
    return math.log(probability) - math.log1p(-probability)
