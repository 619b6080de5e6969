"""How many tokens a request has: a fixed number, or drawn from a distribution; equal on any machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from statistics import NormalDist

from suites.model import Lengths

_Map = Callable[[float], float]
LEAST_CHANCE = 1e-15  # the quantiles of 0 and 1 are infinite


def drawn(lengths: int | Lengths, rng: Random) -> int:
    """Tokens, at least 1. A distribution takes one `rng.random()` and gives its quantile there.

    What lies outside min..max is left out and the rest scaled up, so nothing heaps up at the two ends.
    """
    if isinstance(lengths, int):
        return lengths
    low, share = lengths.min or 1, rng.random()
    if lengths.distribution == "uniform":
        return low + int(share * ((lengths.max or low) - low + 1))
    law, to_law, back = _LAWS[lengths.distribution](lengths.mean or 1.0, lengths.sd or 1.0)
    below = law.cdf(to_law(low - 0.5))
    above = 1.0 if lengths.max is None else law.cdf(to_law(lengths.max + 0.5))
    chance = min(max(below + share * (above - below), LEAST_CHANCE), 1.0 - LEAST_CHANCE)
    tokens = max(low, round(back(law.inv_cdf(chance))))
    return tokens if lengths.max is None else min(tokens, lengths.max)


def _normal(mean: float, sd: float) -> tuple[NormalDist, _Map, _Map]:
    return NormalDist(mean, sd), float, float


def _lognormal(mean: float, sd: float) -> tuple[NormalDist, _Map, _Map]:
    """The law of the logarithm, from mean and sd of the lengths themselves."""
    variance = math.log1p((sd / mean) ** 2)
    return NormalDist(math.log(mean) - variance / 2.0, math.sqrt(variance)), math.log, math.exp


_LAWS = {"normal": _normal, "lognormal": _lognormal}
