"""Intervals: the bootstrap over repeats, exact intervals for shares and rates. Seeded: a verdict repeats.

Repeats are the units: an engine that is fast or slow for the life of its process shifts every request of a
repeat together, so requests of one repeat are no independent evidence. Repeats are drawn whole. With a single
repeat its requests are drawn instead; the interval then says nothing about a second start of the engine.

A percentile interval from n units is too narrow (n=3: 0.75 for a nominal 0.95), so its two arms are widened
by sqrt(n / (n-1)) * t(n-1) / z, which restores the nominal coverage for the mean of n normal values
(Hesterberg 2015, section 5.3, widens the levels instead, which cannot reach beyond the data).
"""

from __future__ import annotations

import zlib
from functools import cache, lru_cache

import numpy as np

from reports.judgement import Interval
from reports.samples import FloatArray, IntArray

DRAWS = 2000


@lru_cache(maxsize=64)
def unit_draws(n_units: int, seed: int, label: str, draws: int = DRAWS) -> IntArray:
    """How often each of `n_units` is taken in each draw: int64 (draws, n_units), rows sum to n.

    `label` keeps the draws of different cells apart; the same label gives two arms the same draws (pairs).
    """
    rng = np.random.default_rng([seed, zlib.crc32(label.encode())])
    drawn = rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=draws).astype(np.int64)
    drawn.setflags(write=False)  # one array for all metrics of a cell
    return drawn


@cache
def widening(n_units: int, confidence: float) -> float:
    """sqrt(n / (n-1)) * t(n-1) / z at the two-sided `confidence`; n >= 2."""
    from scipy.special import ndtri, stdtrit

    level = 0.5 + confidence / 2
    ratio = float(stdtrit(n_units - 1, level)) / float(ndtri(level))
    return ratio * float(np.sqrt(n_units / (n_units - 1)))


def bootstrap_interval(point: float, drawn: FloatArray, n_units: int, confidence: float) -> Interval | None:
    """The widened percentile interval of `drawn` (draws,) about `point`, in logs when all is positive.

    None below two units (one value shows no spread), and when a draw or an end of the interval is not finite.
    """
    if n_units < 2 or not np.isfinite(point) or not np.all(np.isfinite(drawn)):
        return None
    tail = (1 - confidence) / 2
    low, high = (float(edge) for edge in np.quantile(drawn, [tail, 1 - tail]))
    found = _widened(low, point, high, widening(n_units, confidence))
    return found if np.isfinite(found.low) and np.isfinite(found.high) else None


def _widened(low: float, point: float, high: float, factor: float) -> Interval:
    low, high = min(low, point), max(high, point)
    if low <= 0:
        return Interval(point - factor * (point - low), point, point + factor * (high - point))
    with np.errstate(over="ignore"):  # two repeats at a confidence of 0.99999: any figure is possible
        up = point * np.exp(factor * np.log(high / point))
    return Interval(float(point * np.exp(-factor * np.log(point / low))), point, float(up))


def share_interval(successes: int, trials: int, confidence: float) -> Interval | None:
    """Clopper-Pearson interval of a share: 0 of 10 is not "0"; None without trials."""
    from scipy.special import betaincinv

    if trials <= 0:
        return None
    tail = (1 - confidence) / 2
    low = float(betaincinv(successes, trials - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    return Interval(low, successes / trials, high)


def count_rate_interval(events: int, exposure: float, confidence: float) -> Interval | None:
    """Exact (Garwood) interval of a Poisson rate, events per unit of `exposure`; None without exposure."""
    from scipy.special import gammaincinv

    if exposure <= 0:
        return None
    tail = (1 - confidence) / 2
    low = float(gammaincinv(events, tail)) if events else 0.0
    high = float(gammaincinv(events + 1, 1 - tail))
    return Interval(low / exposure, events / exposure, high / exposure)
