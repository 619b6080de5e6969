"""The closed loop's rules, free of clock and network: who sends again, what is warm-up, what is steady state.

Both drivers obey it: over HTTP (closed.py) and in virtual time (virtual.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.think import Pauses
from suites.model import LoadSpec

NO_STEADY_STATE = (
    "no steady state: a stream ran out before every stream was past its warm-up; "
    "give more requests_per_stream or duration_s"
)


@dataclass(frozen=True, slots=True)
class Window:
    """Steady state, in the run's clock. `fault`: why there is none; empty = there is one."""

    start_s: float
    end_s: float
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Course:
    """What streams did: each one's first measured request (None = it had none), and when each ran out."""

    begun_s: tuple[float | None, ...]
    ran_out_s: tuple[float, ...]
    start_s: float

    def window(self) -> Window:
        """From when every stream has begun its first measured request until the first stream runs out."""
        return steady_window(self.begun_s, self.ran_out_s, self.start_s)


@dataclass(frozen=True, slots=True)
class Turn:
    """A stream's request: its number within the stream, and whether it only warms up."""

    number: int
    warmup: bool


class ClosedLoop:
    """`duration_s` counts from `start_s`, warm-up included; `requests_per_stream` counts measured requests.

    Each stream calls `begin` and `ended` in turns, and `run_out` once when it is through.
    """

    def __init__(self, load: LoadSpec, concurrency: int, start_s: float, name: str = "") -> None:
        self._load = load
        self._start_s = start_s
        self._pauses = Pauses(load, concurrency, name)
        self._turns = [0] * concurrency
        self._measured = [0] * concurrency
        self._begun_s: list[float | None] = [None] * concurrency  # the first measured request
        self._ended_s = [start_s] * concurrency
        self._ran_out_s: list[float] = []

    def due_s(self, stream: int, now_s: float) -> float:
        """When the stream's next request is due, if it is free at `now_s`: its start, or after a thought."""
        number = self._turns[stream]
        first_s = 0.0 if number else self._pauses.first_s(stream)
        return now_s + first_s + self._pauses.think_s(stream, number)

    def begin(self, stream: int, now_s: float) -> Turn | None:
        """The stream's next request, due at `now_s`; None when it is used up."""
        load, number = self._load, self._turns[stream]
        if load.requests_per_stream is not None and self._measured[stream] >= load.requests_per_stream:
            return None
        if load.duration_s is not None and now_s - self._start_s >= load.duration_s:
            return None
        warmup = number < load.warmup_requests or now_s - self._start_s < load.warmup_s
        self._turns[stream] += 1
        if not warmup:
            self._measured[stream] += 1
            if self._begun_s[stream] is None:
                self._begun_s[stream] = now_s
        return Turn(number, warmup)

    def ended(self, stream: int, now_s: float) -> None:
        """The stream's request has ended."""
        self._ended_s[stream] = now_s

    def run_out(self, stream: int) -> None:
        """The stream sends no more: its last request's end is when it ran out."""
        self._ran_out_s.append(self._ended_s[stream])

    def window(self) -> Window:
        """As `Course.window`, of all streams."""
        return self.course(range(len(self._begun_s))).window()

    def course(self, streams: Sequence[int]) -> Course:
        """Of these streams, the only ones that took part."""
        begun_s = tuple(self._begun_s[stream] for stream in streams)
        return Course(begun_s, tuple(self._ran_out_s), self._start_s)


def steady_window(begun_s: Sequence[float | None], ran_out_s: Sequence[float], start_s: float) -> Window:
    """`begun_s`: each stream's first measured request, None = it had none; `ran_out_s`: of those that did."""
    begun = [at for at in begun_s if at is not None]
    end_s = min(ran_out_s, default=start_s)
    if len(begun) == len(begun_s) and max(begun) < end_s:
        return Window(max(begun), end_s)
    return Window(min(begun, default=start_s), max(ran_out_s, default=start_s), NO_STEADY_STATE)
