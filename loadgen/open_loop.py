"""The open loop's rules: requests are due whether or not others have ended; what waits is the backlog."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, pairwise
from pathlib import Path
from random import Random

from loadgen.arrival_trace import read_arrival_trace
from loadgen.arrivals import Stretch, constant_gaps, due_times, gamma_gaps, poisson_gaps
from loadgen.sends import Send
from loadgen.share import ALL, Share
from loadgen.steady import Turn, Window
from suites.model import LoadSpec, Phase

NO_ARRIVALS = "no request was due in the measured part of the load: give a higher rate_per_s or duration_s"


def phase_name(index: int, phase: Phase) -> str | None:
    """The part of the prompts that a phase takes; None = the cell's own."""
    return None if phase.weights is None else f"phase-{index}"


class OpenLoop:
    """LoadRules. Request n of the cell is turn n // C of stream n % C; share i of N has n = i, i + N, ...

    With `max_in_flight` = m, request n leaves when it is due and fewer than m of those before it are under
    way, first come first served. A share has m / N of the places, and only its own requests take them.
    """

    def __init__(self, load: LoadSpec, concurrency: int, name: str, share: Share = ALL) -> None:
        self._load = load
        self._streams = concurrency
        self._share = share
        self._stretches = _stretches(load, concurrency)
        self._due = _due(load, concurrency, name, self._stretches)
        self._next = 0
        self._ended_s: list[float] = []

    def start(self) -> list[Send]:
        cap = self._load.max_in_flight
        places = len(self._due) if cap is None else self._share.places(cap)
        return [send for _ in range(places) for send in self._sends(0.0)]

    def ended(self, stream: int, now_s: float) -> list[Send]:
        insort(self._ended_s, now_s)
        return self._sends(now_s)

    def share_over_s(self) -> None:
        return None

    def go_on(self, ended_s: float, now_s: float) -> list[Send]:
        return []

    def window(self) -> Window:
        """From the end of the warm-up to the end of the load (a trace's or a count's: its last due time)."""
        start_s, end_s = self._bounds()
        inside = any(start_s <= due_s <= end_s for due_s, _ in self._due)
        return Window(start_s, end_s, "" if inside and end_s > start_s else NO_ARRIVALS)

    def phase_starts_s(self) -> tuple[float, ...] | None:
        if self._load.phases is None:
            return None
        return _edges(self._load.phases)

    def notes(self) -> tuple[str, ...]:
        start_s, end_s = self._bounds()
        due = [due_s for due_s, _ in self._due]
        offered = (len(due) - bisect_right(due, start_s - 1e-12)) / max(end_s - start_s, 1e-9)
        peak_s, peak = max(
            ((at, self._backlog(at)) for at in due), key=lambda pair: pair[1], default=(0.0, 0)
        )
        return (
            f"open loop: {self._load.arrivals} arrivals, {offered:.4g} requests/s offered; backlog (due, not "
            f"answered) {self._backlog(end_s)} at its end, at most {peak} at {peak_s:.3g} s",
        )

    def _backlog(self, at_s: float) -> int:
        due = bisect_right(self._due, (at_s, math.inf))
        return due - bisect_right(self._ended_s, at_s)

    def _bounds(self) -> tuple[float, float]:
        load = self._load
        if load.phases is not None:
            edges = _edges(load.phases)
            warm = sum(phase.warmup for phase in load.phases)
            return edges[warm], edges[-1]
        if load.duration_s is not None:
            return load.warmup_s, load.duration_s
        return load.warmup_s, self._due[-1][0] if self._due else 0.0

    def _sends(self, now_s: float) -> list[Send]:
        """The next request of this share, after those of others that come before it."""
        sends: list[Send] = []
        while self._next < len(self._due) and not (sends and sends[-1].ours):
            sends.append(self._send(self._next, now_s))
            self._next += 1
        return sends

    def _send(self, number: int, now_s: float) -> Send:
        due_s, index = self._due[number]
        phases = self._load.phases
        warmup = phases[index].warmup if phases else due_s < self._load.warmup_s
        turn = Turn(number // self._streams, warmup)
        part = phase_name(index, phases[index]) if phases else None
        return Send(number % self._streams, turn, due_s, max(due_s, now_s), part, self._share.has(number))


def _edges(phases: Sequence[Phase]) -> tuple[float, ...]:
    return tuple(accumulate((phase.duration_s or 0.0 for phase in phases), initial=0.0))


def _stretches(load: LoadSpec, concurrency: int) -> list[tuple[int, Stretch]]:
    """(phase, stretch): a phase with a ramp has two. C multiplies every rate."""
    if load.phases is None:
        rate = concurrency * (load.rate_per_s or 0.0)
        return [(0, Stretch(0.0, math.inf if load.duration_s is None else load.duration_s, rate, rate))]
    found: list[tuple[int, Stretch]] = []
    before = 0.0
    for index, (phase, (start_s, end_s)) in enumerate(
        zip(load.phases, pairwise(_edges(load.phases)), strict=True)
    ):
        given = load.rate_per_s if phase.rate_per_s is None else phase.rate_per_s
        after = concurrency * (given or 0.0)
        flat_s = start_s + (phase.ramp_s or 0.0)
        if phase.ramp_s:
            found.append((index, Stretch(start_s, phase.ramp_s, before, after)))
        if end_s > flat_s:
            found.append((index, Stretch(flat_s, end_s - flat_s, after, after)))
        before = after
    return found


def _due(
    load: LoadSpec, concurrency: int, name: str, stretches: Sequence[tuple[int, Stretch]]
) -> list[tuple[float, int]]:
    """(due_s, phase) of every request of the cell."""
    limit = None if load.requests_per_stream is None else load.requests_per_stream * concurrency
    if load.arrivals == "trace":
        times = [time / concurrency for time in read_arrival_trace(Path(load.trace or ""))[:limit]]
        return [(time, 0) for time in times if load.duration_s is None or time < load.duration_s]
    due = due_times([stretch for _, stretch in stretches], _gaps(load, Random(f"{name}/arrivals")))
    return [(due_s, stretches[index][0]) for due_s, index in islice(due, limit)]


def _gaps(load: LoadSpec, rng: Random) -> Iterator[float]:
    if load.arrivals == "constant":
        return constant_gaps()
    return poisson_gaps(rng) if load.cv is None else gamma_gaps(load.cv, rng)
