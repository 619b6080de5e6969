"""All shares of a load together are the load: same requests, prompts and due times, however many."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.lockstep import Rounds
from loadgen.paced import Driven, driven
from loadgen.parts import PromptParts
from loadgen.records import CellKey
from loadgen.rules import rules_of
from loadgen.sends import Send
from loadgen.share import Share, shares
from loadgen.steady import ClosedLoop, Course, Window
from loadgen.stream import request_name
from loadgen.together import NOBODY, together
from loadgen.traffic import Prompt, TrafficMix
from suites.model import Burst, LoadSpec, Phase, TrafficClass

MIX = TrafficMix([TrafficClass("gsm8k"), TrafficClass("chat", 2.0)], 3)


@dataclass
class Played:
    """What was sent by whom, and what the cell says of itself."""

    sent: list[tuple[int, Send, Prompt, float]] = field(default_factory=list)  # share, ..., ended
    driven: Driven | None = None

    def plan(self, left: bool = True) -> dict[str, tuple[object, ...]]:
        """Of each request everything but who sent it. `left`: when it left, too."""
        key = CellKey("off", 1, 0)
        plan: dict[str, tuple[object, ...]] = {
            request_name(key, send.stream, send.turn): (
                send.due_s, send.at_s if left else None, send.turn.warmup, send.part, prompt,
            )
            for _, send, prompt, _ in self.sent
        }  # fmt: skip
        assert len(plan) == len(self.sent)
        return plan

    def order(self) -> list[tuple[float, int, int]]:
        return sorted((send.due_s, send.stream, send.turn.number) for _, send, _, _ in self.sent)


def served_for(send: Send) -> float:
    """Seconds, of the request alone: not of who sent it."""
    return 0.01 + Random(f"{send.stream}/{send.turn.number}").random()


class Play:
    """A load on a made-up server, by so many shares that hear of each other as workers do."""

    def __init__(self, load: LoadSpec, repeat: int, of: int) -> None:
        key = CellKey("off", load.concurrency[0], repeat)
        cells = [MIX.cell(key) for _ in range(of)]
        self._rules = [
            rules_of(load, key.concurrency, cell.name, share)
            for cell, share in zip(cells, shares(of), strict=True)
        ]
        self._parts = [PromptParts(cell, load, key.concurrency) for cell in cells]
        self._rounds = Rounds(of)
        self._waiting: list[tuple[float, int, int, Send]] = []
        self._ended_s: list[list[float]] = [[] for _ in range(of)]
        self._first_burst_stream = key.concurrency
        self.played = Played()
        for share, rules in enumerate(self._rules):
            self._take(share, list(rules.start()))
        while self._waiting:
            ended_s, _, share, send = heapq.heappop(self._waiting)
            if send.stream < self._first_burst_stream:
                self._ended_s[share].append(ended_s)
            self._take(share, list(self._rules[share].ended(send.stream, ended_s)))
        parts = [driven(rules, 0.0) for rules in self._rules]
        if load.mode == "open":
            parts = [
                Driven(part.window, part.phase_starts_s, part.notes, ended_s=ended_s)
                for part, ended_s in zip(parts, self._ended_s, strict=True)
            ]
        self.played.driven = together(load, key.concurrency, cells[0].name, 0.0, parts)

    def _take(self, share: int, sends: list[Send]) -> None:
        for send in sends:
            prompt = self._parts[share].next(send)
            assert prompt is not None
            if send.ours:
                ended_s = send.at_s + served_for(send)
                self.played.sent.append((share, send, prompt, ended_s))
                heapq.heappush(self._waiting, (ended_s, len(self.played.sent), share, send))
        if (over_s := self._rules[share].share_over_s()) is not None:
            self._rounds.over(share, over_s)
            if (last_s := self._rounds.ended_s()) is not None:
                for each, rules in enumerate(self._rules):
                    self._take(each, list(rules.go_on(last_s, last_s)))


def play(load: LoadSpec, repeat: int, of: int) -> Played:
    return Play(load, repeat, of).played


WEIGHTS = st.sampled_from([None, {"chat": 1.0}, {"gsm8k": 3.0, "chat": 1.0}])
OPEN_PHASES = st.lists(
    st.builds(
        Phase,
        rate_per_s=st.floats(0.5, 9),
        duration_s=st.floats(1, 3),
        ramp_s=st.none() | st.floats(0.1, 1),
        weights=WEIGHTS,
    ),
    min_size=1,
    max_size=4,
)
CLOSED_PHASE = st.builds(
    Phase,
    concurrency=st.integers(1, 6),
    duration_s=st.floats(0.5, 3),
    ramp_s=st.none() | st.floats(0.1, 0.5),
    weights=WEIGHTS,
) | st.builds(Phase, concurrency=st.integers(1, 6), requests_per_stream=st.integers(1, 3), weights=WEIGHTS)
BURSTS = st.none() | st.tuples(
    st.builds(Burst, at_s=st.floats(0, 2), requests=st.integers(1, 9), traffic=st.none() | st.just("chat")),
    st.builds(
        Burst,
        at_s=st.floats(0, 1),
        requests=st.integers(1, 4),
        times=st.integers(2, 3),
        every_s=st.floats(0.1, 1),
    ),
)
ARRIVALS = st.sampled_from([("poisson", None), ("gamma", 2.0), ("gamma", 0.5), ("constant", None)])


@st.composite
def open_loads(draw: st.DrawFn) -> LoadSpec:
    arrivals, cv = draw(ARRIVALS)
    phases = draw(st.none() | OPEN_PHASES)
    return LoadSpec(
        (draw(st.integers(1, 5)),),
        "open",
        duration_s=None if phases else 4.0,
        warmup_s=0.0 if phases else draw(st.sampled_from([0.0, 1.0])),
        rate_per_s=draw(st.floats(0.5, 9)),
        arrivals=arrivals,
        cv=cv,
        phases=None if phases is None else tuple(phases),
        bursts=draw(BURSTS),
    )


@st.composite
def closed_loads(draw: st.DrawFn) -> LoadSpec:
    phases = tuple(draw(st.lists(CLOSED_PHASE, min_size=1, max_size=4)))
    most = max(phase.concurrency or 0 for phase in phases)
    think_s = draw(st.sampled_from([None, 0.2]))
    think = None if think_s is None else "exponential"
    return LoadSpec((most,), phases=phases, think_s=think_s, think=think, bursts=draw(BURSTS))


MANY = settings(deadline=None, max_examples=150)


@MANY
@given(open_loads(), st.integers(0, 50), st.integers(2, 7))
def test_an_open_loop_is_the_union_of_its_shares(load: LoadSpec, repeat: int, of: int) -> None:
    whole, shared = play(load, repeat, 1), play(load, repeat, of)
    assert shared.plan() == whole.plan()
    assert shared.order() == whole.order()
    assert shared.driven == whole.driven  # window, phases and the backlog, to the last digit
    arrivals = Counter(share for share, send, _, _ in shared.sent if send.stream < load.concurrency[0])
    total = sum(arrivals.values())
    assert [arrivals[share] for share in range(of)] == [Share(share, of).places(total) for share in range(of)]


@MANY
@given(open_loads(), st.integers(0, 50), st.integers(2, 4), st.integers(4, 9))
def test_with_a_limit_the_plan_is_the_same_and_each_share_keeps_its_part_of_it(
    load: LoadSpec, repeat: int, of: int, limit: int
) -> None:
    """When a held request leaves depends on who has a free place; what is due when does not."""
    load = LoadSpec(**{name: getattr(load, name) for name in load.__slots__} | {"max_in_flight": limit})
    whole, shared = play(load, repeat, 1), play(load, repeat, of)
    assert shared.plan(left=False) == whole.plan(left=False)
    assert shared.driven is not None
    assert whole.driven is not None
    assert shared.driven.window == whole.driven.window
    places = [Share(share, of).places(limit) for share in range(of)]
    assert sum(places) == limit
    for share in range(of):
        own = [
            (send, ended_s)
            for by, send, _, ended_s in shared.sent
            if by == share and send.stream < load.concurrency[0]
        ]
        assert most_at_once(own) <= places[share]
        left = [send.at_s for send, _ in sorted(own, key=lambda pair: pair[0].due_s)]
        assert all(before <= after for before, after in pairwise(left))


def most_at_once(served: list[tuple[Send, float]]) -> int:
    events = sorted([(send.at_s, 1) for send, _ in served] + [(ended_s, -1) for _, ended_s in served])
    running = most = 0
    for _, change in events:
        running += change
        most = max(most, running)
    return most


@MANY
@given(closed_loads(), st.integers(0, 50), st.integers(2, 7))
def test_phases_are_the_union_of_their_shares(load: LoadSpec, repeat: int, of: int) -> None:
    """Each share has every n-th stream at every level, and a phase of requests ends when all of it has."""
    whole, shared = play(load, repeat, 1), play(load, repeat, of)
    assert shared.plan() == whole.plan()
    assert shared.order() == whole.order()
    assert shared.driven == whole.driven
    assert shared.driven is not None
    assert not shared.driven.window.fault
    assert all(send.stream % of == share for share, send, _, _ in shared.sent)


def test_a_trace_is_dealt_out_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    trace = tmp_path_factory.mktemp("trace") / "due.txt"
    trace.write_text("".join(f"{at * at / 50}\n" for at in range(20)))
    load = LoadSpec((2,), "open", arrivals="trace", trace=str(trace))
    for of in (2, 3, 25):
        assert play(load, 0, of).plan() == play(load, 0, 1).plan()
        assert play(load, 0, of).driven == play(load, 0, 1).driven


def test_rounds_end_with_the_last_who_is_left() -> None:
    rounds = Rounds(3)
    rounds.over(0, 5.0)
    rounds.over(1, 7.0)
    assert rounds.ended_s() is None
    rounds.over(2, 6.0)
    assert rounds.ended_s() == 7.0
    assert rounds.ended_s() is None
    rounds.over(0, 9.0)
    rounds.over(2, 8.0)
    assert rounds.ended_s() is None
    rounds.gone(1)
    assert rounds.ended_s() == 9.0
    for process in (0, 2):
        rounds.gone(process)
    assert rounds.ended_s() is None


def test_one_window_out_of_several() -> None:
    """Bursts: to the last end of all. Closed loops: from when all have begun until the first runs out."""
    bursts = [Driven(Window(1.0, end_s)) for end_s in (4.0, 6.0, 5.0)]
    load = LoadSpec((3,), mode="burst", requests_per_stream=2)
    assert together(load, 3, "x", 0.0, bursts).window == Window(1.0, 6.0)
    closed = LoadSpec((3,), requests_per_stream=2)
    loops = [ClosedLoop(closed, 3, 0.0) for _ in range(2)]
    for stream, (share, began_s) in enumerate([(0, 0.5), (1, 0.25), (0, 0.75)]):
        loops[share].begin(stream, began_s)
        loops[share].ended(stream, began_s + 2.0)
        loops[share].run_out(stream)
    parts = [
        Driven(course.window(), course=course) for course in (loops[0].course([0, 2]), loops[1].course([1]))
    ]
    assert together(closed, 3, "x", 0.0, parts).window == Window(0.75, 2.25)
    assert together(closed, 3, "x", 8.0, []).window == Window(8.0, 8.0, NOBODY)
    assert Course((0.5, 0.25, 0.75), (2.5, 2.25, 2.75), 0.0).window() == Window(0.75, 2.25)


def test_a_worker_whose_prompts_ran_out_spoils_the_window_of_all() -> None:
    load = LoadSpec((2,), phases=(Phase(requests_per_stream=1),))
    parts = [Driven(Window(0.0, 3.0), (0.0, 3.0)), Driven(Window(0.0, 0.0, "cut short"), (0.0,))]
    assert together(load, 2, "x", 0.0, parts).window.fault == "cut short"
