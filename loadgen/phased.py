"""The rules of a closed loop in phases: how many streams run when, who sends again, when a phase is over."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.open_loop import phase_name
from loadgen.sends import Send
from loadgen.share import ALL, Share
from loadgen.steady import Turn, Window
from loadgen.think import Pauses
from suites.model import LoadSpec, Phase

CUT_SHORT = "the load's phases did not come to their end: its prompts ran out"


@dataclass(frozen=True, slots=True)
class Stage:
    """A phase in a cell: `streams` of them run after it was entered with `before`; `part`: its prompts."""

    phase: Phase
    part: str | None
    before: int
    streams: int

    def active_s(self, stream: int) -> tuple[float, float] | None:
        """From when to when the stream may send, from the phase's start; None = not at all.

        With a ramp the streams that come (lowest first) or go (highest first) do so one by one, evenly spaced
        over it, the first at once. Only for a phase of a duration.
        """
        end_s, ramp_s = self.phase.duration_s or 0.0, self.phase.ramp_s or 0.0
        if stream < min(self.before, self.streams):
            return 0.0, end_s
        if self.before <= stream < self.streams:
            return ramp_s * (stream - self.before) / (self.streams - self.before), end_s
        if self.streams <= stream < self.before:
            return 0.0, ramp_s * (self.before - 1 - stream) / (self.before - self.streams)
        return None


def stages(load: LoadSpec, concurrency: int) -> tuple[Stage, ...]:
    """The phases of a cell; a load without phases is one, after a warm-up if it has one."""
    found: list[Stage] = []
    for index, phase in enumerate(load.phases or _plain(load)):
        streams = concurrency if phase.concurrency is None else phase.concurrency
        before = found[-1].streams if found else 0 if phase.ramp_s else streams
        found.append(Stage(phase, phase_name(index, phase), before, streams))
    return tuple(found)


def _plain(load: LoadSpec) -> list[Phase]:
    warm = []
    if load.warmup_s:
        warm.append(
            Phase(duration_s=load.warmup_s, ramp_s=_within(load.stagger_s, load.warmup_s), warmup=True)
        )
    if load.warmup_requests:
        warm.append(Phase(requests_per_stream=load.warmup_requests, warmup=True))
    if load.duration_s is None:
        return [*warm, Phase(requests_per_stream=load.requests_per_stream)]
    left_s = load.duration_s - load.warmup_s
    return [*warm, Phase(duration_s=left_s, ramp_s=None if warm else _within(load.stagger_s, left_s))]


def _within(ramp_s: float | None, longest_s: float) -> float | None:
    return None if ramp_s is None else min(ramp_s, longest_s)


class PhasedLoop:
    """LoadRules. A phase of a duration ends by the clock; its streams end the request that they have.

    In a phase of requests each of its streams sends so many; it is over when the last of them has ended.
    A share has every n-th stream; it says when its part of such a phase is over, and hears when all of it is.
    """

    def __init__(self, load: LoadSpec, concurrency: int, name: str, share: Share = ALL) -> None:
        self._stages = stages(load, concurrency)
        self._named = load.phases is not None
        self._pauses = Pauses(load, concurrency, name)
        most = max(stage.streams for stage in self._stages)
        self._share = share
        self._turns = [0] * most
        self._under_way: dict[int, int] = {}  # stream -> stage of its request
        self._starts_s = [0.0]
        self._left: list[int] = []  # what each stream has still to send in the stage of requests in force,
        self._missing = 0  # how many of this share's have not ended,
        self._over_s: float | None = None  # and since when none is missing
        self._reach()

    def start(self) -> list[Send]:
        return self._wake(0.0)

    def ended(self, stream: int, now_s: float) -> list[Send]:
        current = len(self._starts_s) - 1
        stage = self._under_way.pop(stream)
        if stage == current and self._by_requests(current):
            self._missing -= 1
            if not self._missing:
                if self._share == ALL:
                    return self.go_on(now_s, now_s)
                self._over_s = now_s
                return []
        send = self._next(stream, now_s + self._pauses.think_s(stream, self._turns[stream]))
        return [] if send is None else [send]

    def share_over_s(self) -> float | None:
        over_s, self._over_s = self._over_s, None
        return over_s

    def go_on(self, ended_s: float, now_s: float) -> list[Send]:
        self._starts_s.append(ended_s)
        self._reach()
        return self._wake(now_s)

    def window(self) -> Window:
        """From the start of the first phase that does not warm up to the end of the last."""
        warm = sum(stage.phase.warmup for stage in self._stages)
        whole = len(self._starts_s) > len(self._stages)
        start_s = self._starts_s[warm] if warm < len(self._starts_s) else self._starts_s[-1]
        return Window(start_s, self._starts_s[-1], "" if whole else CUT_SHORT)

    def phase_starts_s(self) -> tuple[float, ...] | None:
        return tuple(self._starts_s) if self._named else None

    def notes(self) -> tuple[str, ...]:
        return ()

    def _by_requests(self, index: int) -> bool:
        return index < len(self._stages) and self._stages[index].phase.requests_per_stream is not None

    def _reach(self) -> None:
        """Phases whose start is known by now: up to the first one of requests, which ends when it ends."""
        while not self._by_requests(at := len(self._starts_s) - 1) and at < len(self._stages):
            self._starts_s.append(self._starts_s[at] + (self._stages[at].phase.duration_s or 0.0))
        if at < len(self._stages):
            stage = self._stages[at]
            self._left = [stage.phase.requests_per_stream or 0] * stage.streams
            self._missing = sum(self._left[stream] for stream in self._share.streams(stage.streams))
            if not self._missing:
                self._over_s = self._starts_s[at]

    def _wake(self, now_s: float) -> list[Send]:
        """Everyone who is idle looks for something to send."""
        streams = self._share.streams(len(self._turns))
        sends = [self._next(stream, now_s) for stream in streams if stream not in self._under_way]
        return [send for send in sends if send is not None]

    def _next(self, stream: int, ready_s: float) -> Send | None:
        for index, (stage, start_s) in enumerate(zip(self._stages, self._starts_s, strict=False)):
            if stage.phase.requests_per_stream is None:
                active = stage.active_s(stream)
                if active is None or ready_s >= start_s + active[1] or active[1] <= active[0]:
                    continue
                return self._send(stream, index, max(ready_s, start_s + active[0]))
            if index == len(self._starts_s) - 1 and stream < stage.streams and self._left[stream]:
                self._left[stream] -= 1
                return self._send(stream, index, max(ready_s, start_s))
        return None

    def _send(self, stream: int, index: int, at_s: float) -> Send:
        stage = self._stages[index]
        turn = Turn(self._turns[stream], stage.phase.warmup)
        self._turns[stream] += 1
        self._under_way[stream] = index
        return Send(stream, turn, at_s, at_s, stage.part)
