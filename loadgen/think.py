"""Pauses of a closed loop: when a stream begins, and how long it thinks before its next request."""

from __future__ import annotations

import math
from random import Random

from loadgen.arrivals import DIGITS
from suites.model import LoadSpec


class Pauses:
    """Of one cell, drawn from `name` (seed, repeat, concurrency): the same for every arm."""

    def __init__(self, load: LoadSpec, concurrency: int, name: str) -> None:
        self._mean_s = load.think_s or 0.0
        self._exponential = load.think == "exponential"
        self._stagger_s = (load.stagger_s or 0.0) / concurrency
        self._name = name

    def first_s(self, stream: int) -> float:
        """From the cell's start to the stream's first request: stream i of C waits i / C of `stagger_s`."""
        return round(stream * self._stagger_s, DIGITS)

    def think_s(self, stream: int, number: int) -> float:
        """Before the stream's request `number`, from the end of the one before."""
        if not self._exponential or not number:
            return self._mean_s if number else 0.0
        draw = Random(f"{self._name}/think/{stream}/{number}").random()
        return round(-self._mean_s * math.log1p(-draw), DIGITS)
