"""Bursts on top of another load: requests at once, from streams of their own that send once a burst."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.arrivals import DIGITS
from loadgen.sends import LoadRules, Send
from loadgen.share import ALL, Share
from loadgen.steady import Turn, Window
from suites.grammar import counted
from suites.model import Burst


def burst_part(index: int) -> str:
    """The part of the prompts that burst `index` takes."""
    return f"burst-{index}"


class BurstsOnTop:
    """LoadRules of `rules` and the bursts; streams from `first_stream` on are the bursts'."""

    def __init__(
        self, rules: LoadRules, bursts: Sequence[Burst], first_stream: int, share: Share = ALL
    ) -> None:
        self._rules = rules
        self._bursts = bursts
        self._first_stream = first_stream
        self._share = share

    def start(self) -> list[Send]:
        sends = [*self._rules.start()]
        stream = self._first_stream
        for index, burst in enumerate(self._bursts):
            for time in range(burst.times):
                at_s = round(burst.at_s + time * (burst.every_s or 0.0), DIGITS)
                turn = Turn(time, warmup=False)
                sends += [
                    Send(stream + place, turn, at_s, at_s, burst_part(index))
                    for place in range(burst.requests)
                    if self._share.has(stream + place)
                ]
            stream += burst.requests
        return sends

    def ended(self, stream: int, now_s: float) -> Sequence[Send]:
        return () if stream >= self._first_stream else self._rules.ended(stream, now_s)

    def share_over_s(self) -> float | None:
        return self._rules.share_over_s()

    def go_on(self, ended_s: float, now_s: float) -> Sequence[Send]:
        return self._rules.go_on(ended_s, now_s)

    def window(self) -> Window:
        return self._rules.window()

    def phase_starts_s(self) -> tuple[float, ...] | None:
        return self._rules.phase_starts_s()

    def notes(self) -> tuple[str, ...]:
        said = [
            f"{counted(burst.requests, 'request')} at once on top, at {burst.at_s:g} s"
            + (
                f" and {counted(burst.times - 1, 'time')} more, every {burst.every_s:g} s"
                if burst.every_s
                else ""
            )
            for burst in self._bursts
        ]
        return (*self._rules.notes(), *said)
