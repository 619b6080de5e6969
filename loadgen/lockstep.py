"""What the processes that drive a cell agree on: when it begins, and when a round of it is over.

A round is what ends with its requests, whoever sent them: a burst, a phase of `requests_per_stream`. All else
in a load follows from the plan and the clock, so nobody has to ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from loadgen.reads import Clock


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of the run's clock. `ended_s`: its last request's end; `go_s`: what follows is due then."""

    ended_s: float
    go_s: float


class Lockstep(Protocol):
    """As one of the processes sees it."""

    async def start(self) -> float:
        """When the cell begins; comes back then. This process is ready, and waits until all are."""
        ...

    async def round_over(self, ended_s: float) -> Round:
        """This process's part of a round ended at `ended_s`; comes back when everyone's has."""
        ...


class Alone:
    """One process that drives a whole cell."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def start(self) -> float:
        return self._clock()

    async def round_over(self, ended_s: float) -> Round:
        return Round(ended_s, self._clock())


class Rounds:
    """As whoever hears them all sees it. Processes that have ended, however, are not waited for."""

    def __init__(self, processes: int) -> None:
        self._left = set(range(processes))
        self._ended_s: dict[int, float] = {}

    def over(self, process: int, ended_s: float) -> None:
        """Its part of the round under way ended then."""
        self._ended_s[process] = ended_s

    def gone(self, process: int) -> None:
        """It sends no more."""
        self._left.discard(process)

    def ended_s(self) -> float | None:
        """When the round ended, said once, when everyone who is left has reported; None = not yet."""
        if not self._left or not self._left <= self._ended_s.keys():
            return None
        ended_s = max(self._ended_s.values())
        self._ended_s.clear()
        return ended_s
