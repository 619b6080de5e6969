"""How far another machine's monotonic clock is from ours, out of pings: the midpoint of the best of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

DRIFT = 1e-4  # seconds a second that two quartz clocks part at most (2 x 50 ppm, what datasheets promise)
KEPT = 64


@dataclass(frozen=True, slots=True)
class Ping:
    """Sent and back by our clock, answered by theirs, in seconds."""

    sent_s: float
    answered_s: float
    back_s: float

    @property
    def offset_s(self) -> float:
        """Theirs - ours, if the answer took as long as the question (Cristian 1989)."""
        return self.answered_s - (self.sent_s + self.back_s) / 2

    def error_s(self, now_s: float) -> float:
        """What the offset is off by at most: half the round trip, and the drift since then."""
        return (self.back_s - self.sent_s) / 2 + DRIFT * max(0.0, now_s - self.back_s)


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """theirs = ours + `offset_s`, within +- `error_s`."""

    offset_s: float
    error_s: float

    def ours(self, theirs_s: float) -> float:
        return theirs_s - self.offset_s

    def theirs(self, ours_s: float) -> float:
        return ours_s + self.offset_s


class OffsetEstimate:
    """Feed it pings; `at` says what is known at a time."""

    def __init__(self) -> None:
        self._pings: deque[Ping] = deque(maxlen=KEPT)

    def add(self, ping: Ping) -> None:
        self._pings.append(ping)

    def at(self, now_s: float) -> ClockOffset | None:
        """None before the first ping. An offset that is not told from 0 is taken for 0 (one machine, one

        clock), and then adds to the error.
        """
        if not self._pings:
            return None
        best = min(self._pings, key=lambda ping: ping.error_s(now_s))
        offset_s, error_s = best.offset_s, best.error_s(now_s)
        if abs(offset_s) <= error_s:
            return ClockOffset(0.0, error_s + abs(offset_s))
        return ClockOffset(offset_s, error_s)
