"""When requests of an open loop are due: gaps of mean 1, and a rate over time that stretches them.

An arrival process of any rate is one of rate 1 on a stretched clock: gaps are drawn with mean 1, summed up,
and the sum is carried back through the integral of the rate. So a ramp keeps the kind of its gaps. Draws come
from `random()` alone, whose stream Python keeps across versions, and due times are rounded to nanoseconds:
one name (of the seed) gives the same times on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from random import Random

DIGITS = 9


@dataclass(frozen=True, slots=True)
class Stretch:
    """Over `duration_s` (may be infinite) the rate goes evenly from `before` to `after`, in 1/s."""

    start_s: float
    duration_s: float
    before: float
    after: float

    @property
    def arrivals(self) -> float:
        """How many are expected in it: the integral of the rate."""
        mean = 0.5 * (self.before + self.after)
        return self.duration_s * mean if mean else 0.0

    def at(self, arrivals: float) -> float:
        """When so many have been expected since the start: x of before x + slope x^2 / 2 = arrivals."""
        slope = (self.after - self.before) / self.duration_s
        root = math.sqrt(max(0.0, self.before**2 + 2.0 * slope * arrivals))
        return self.start_s + (2.0 * arrivals / (self.before + root) if arrivals else 0.0)


def due_times(stretches: Sequence[Stretch], gaps: Iterable[float]) -> Iterator[tuple[float, int]]:
    """(due_s, index of its stretch), ascending; ends with the stretches, or with the gaps."""
    work = accumulate(gaps)
    reached, done = next(work, None), 0.0
    for index, stretch in enumerate(stretches):
        while reached is not None and reached - done < stretch.arrivals:
            yield round(stretch.at(reached - done), DIGITS), index
            reached = next(work, None)
        done += stretch.arrivals


def poisson_gaps(rng: Random) -> Iterator[float]:
    """Exponential: requests that know nothing of each other."""
    return (-math.log1p(-rng.random()) for _ in repeat(None))


def constant_gaps() -> Iterator[float]:
    """The first at once, then one a unit."""
    return chain([0.0], repeat(1.0))


def gamma_gaps(cv: float, rng: Random) -> Iterator[float]:
    """Gamma with mean 1 and standard deviation `cv`: above 1 they clump, below 1 they keep their distance.

    vLLM's `--burstiness` is the shape, 1 / cv^2.
    """
    shape = 1.0 / cv**2
    return (_gamma(shape, rng) / shape for _ in repeat(None))


def _gamma(shape: float, rng: Random) -> float:
    """Marsaglia and Tsang 2000; below 1 by their lift: gamma(shape + 1) * U^(1 / shape)."""
    if shape < 1.0:
        lift = math.exp(math.log1p(-rng.random()) / shape)
        return lift * _gamma(shape + 1.0, rng)
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = _normal(rng)
        v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x)
        if v > 0.0 and math.log1p(-rng.random()) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


def _normal(rng: Random) -> float:
    """Box and Muller; `Random.gauss` may change between versions."""
    radius = math.sqrt(-2.0 * math.log1p(-rng.random()))
    return radius * math.cos(2.0 * math.pi * rng.random())
