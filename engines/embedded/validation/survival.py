"""Acceptance of a population of requests, and the verify windows of an ideal trimming policy."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
_NODES = 15


@lru_cache(maxsize=4)
def _quadrature(nodes: int) -> tuple[FloatArray, FloatArray]:
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return points, weights / weights.sum()


@lru_cache(maxsize=4096)
def population(rate: float, spread: float, depth: int) -> tuple[FloatArray, FloatArray]:
    """(survival (types, depth), weights (types,)): P(the first k drafts pass) by type of request.

    A type's conditional rate is the same at each position; types are Gauss-Hermite nodes of the logit.
    """
    points, weights = _quadrature(_NODES if spread > 0 else 1)
    logit = math.log(rate / (1.0 - rate))
    rates = 1.0 / (1.0 + np.exp(-(logit + spread * points)))
    return rates[:, None] ** np.arange(1, depth + 1), weights


def length(rate: float, spread: float, depth: int) -> float:
    """Tokens a request and step: 1 + the expected number of accepted drafts."""
    if depth == 0:
        return 1.0
    survival, weights = population(rate, spread, depth)
    return 1.0 + float(weights @ survival.sum(axis=1))


@lru_cache(maxsize=4096)
def trimmings(rate: float, spread: float, depth: int) -> tuple[tuple[float, float], ...]:
    """(drafts verified, accepted) a request, as the survival below which drafts are cut off falls.

    Each request keeps a prefix; over the batch the drafts with the highest survival are kept first, as
    DSpark's and D-Cut's confidence ranking would with calibrated confidences (vllm#47808).
    """
    survival, weights = population(rate, spread, depth)
    flat = survival.ravel()
    order = np.argsort(-flat, kind="stable")
    share = np.repeat(weights, depth)[order]
    kept, accepted = np.cumsum(share).tolist(), np.cumsum(share * flat[order]).tolist()
    return ((0.0, 0.0), *zip(kept, accepted, strict=True))


@lru_cache(maxsize=4096)
def burst_shares(
    survival: tuple[float, ...], answer_tokens: int, batch: int
) -> tuple[tuple[float, float], ...]:
    """(active part of the batch, share of the burst's steps) once requests have begun to end.

    Steps that a request needs are taken as normal: mean n / L, variance n v / L^3 of n tokens at L a step
    with variance v. The burst lasts until the last of `batch` requests ends (median of the maximum).
    """
    mean = 1.0 + sum(survival)
    square = 1.0 + sum((2 * k + 1) * p for k, p in enumerate(survival, start=1))
    steps, sd = answer_tokens / mean, math.sqrt(answer_tokens * (square - mean**2) / mean**3)
    normal = NormalDist(steps, max(sd, 1e-9))
    last = normal.inv_cdf(0.5 ** (1.0 / batch))
    ends = [normal.inv_cdf(q) for q in (1.0 / (batch + 1), 0.25, 0.5, 0.75)] + [last]
    pairs = zip((0.875, 0.625, 0.375, 0.125), pairwise(ends), strict=True)
    return tuple((active, max(0.0, later - earlier) / last) for active, (earlier, later) in pairs)
