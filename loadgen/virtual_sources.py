"""Where the virtual engine's requests come from: the sources of a closed loop, of a burst, of any rules."""

from __future__ import annotations

from dataclasses import dataclass

from engines.embedded.simulate import Arrival
from loadgen.sends import LoadRules, Send
from loadgen.steady import ClosedLoop
from loadgen.virtual_traffic import VirtualTraffic


class ClosedSource:
    """engines.embedded.simulate.RequestSource of a plain closed loop."""

    def __init__(self, traffic: VirtualTraffic) -> None:
        self._traffic = traffic
        key = traffic.key
        self.loop = ClosedLoop(traffic.load, key.concurrency, traffic.start_s, traffic.name)

    def start(self) -> list[Arrival]:
        streams = range(self._traffic.key.concurrency)
        return [arrival for stream in streams for arrival in self._next(stream, self._traffic.start_s)]

    def finished(self, stream: int, now_s: float) -> list[Arrival]:
        self.loop.ended(stream, now_s)
        return self._next(stream, now_s)

    def _next(self, stream: int, now_s: float) -> list[Arrival]:
        due_s = self.loop.due_s(stream, now_s)
        turn = self.loop.begin(stream, due_s)
        arrivals = [] if turn is None else self._traffic.arrivals([Send(stream, turn, due_s, due_s)], 0.0)
        if not arrivals:
            self.loop.run_out(stream)
        return arrivals


@dataclass(frozen=True, slots=True)
class BurstSource:
    """One burst: everything at once, and nothing after."""

    arrivals: list[Arrival]

    def start(self) -> list[Arrival]:
        return self.arrivals

    def finished(self, stream: int, now_s: float) -> tuple[Arrival, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class RulesSource:
    """Any load with rules."""

    traffic: VirtualTraffic
    rules: LoadRules

    def start(self) -> list[Arrival]:
        return self.traffic.arrivals(self.rules.start(), self.traffic.start_s)

    def finished(self, stream: int, now_s: float) -> list[Arrival]:
        start_s = self.traffic.start_s
        return self.traffic.arrivals(self.rules.ended(stream, now_s - start_s), start_s)
