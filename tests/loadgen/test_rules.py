"""The rules of open, phased and burst loads on a made-up server: who sends when, and which window counts."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.arrivals import DIGITS
from loadgen.phased import stages
from loadgen.rules import driver_of, rules_of
from loadgen.sends import LoadRules, Send
from loadgen.think import Pauses
from suites.model import Burst, LoadSpec, Phase

Served = tuple[Send, float]


def serve(rules: LoadRules, seconds: Callable[[Send], float]) -> list[Served]:
    """(send, when it ended) in the order in which requests ended, each served for `seconds` by itself."""
    waiting: list[tuple[float, int, Send]] = []
    served: list[Served] = []
    sent = 0
    fresh = [*rules.start()]
    while fresh or waiting:
        for send in fresh:
            heapq.heappush(waiting, (send.at_s + seconds(send), sent, send))
            sent += 1
        ended_s, _, send = heapq.heappop(waiting)
        served.append((send, ended_s))
        fresh = [*rules.ended(send.stream, ended_s)]
    return served


def one_second(send: Send) -> float:
    return 1.0


def most_at_once(served: list[Served]) -> int:
    events = sorted([(send.at_s, 1) for send, _ in served] + [(ended, -1) for _, ended in served])
    running = most = 0
    for _, change in events:
        running += change
        most = max(most, running)
    return most


CONSTANT = LoadSpec((2,), "open", duration_s=3.0, rate_per_s=1.0, arrivals="constant", warmup_s=1.0)


def test_an_open_loop_sends_when_due_whatever_has_ended() -> None:
    rules = rules_of(CONSTANT, 2, "x")
    served = serve(rules, lambda send: 100.0)
    assert [send.due_s for send, _ in served] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    assert all(send.at_s == send.due_s for send, _ in served)
    assert [(send.stream, send.turn.number) for send, _ in served] == [
        (0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2),
    ]  # fmt: skip
    assert [send.turn.warmup for send, _ in served] == [True, True, False, False, False, False]
    window = rules.window()
    assert (window.start_s, window.end_s, window.fault) == (1.0, 3.0, "")
    assert rules.notes() == (
        "open loop: constant arrivals, 2 requests/s offered; backlog (due, not answered) 6 at its end, "
        "at most 6 at 2.5 s",
    )


def test_what_is_held_back_has_been_due_all_the_same() -> None:
    """Two a second, one at a time, a second each: request n is due at n / 2 and leaves at n."""
    load = LoadSpec((2,), "open", requests_per_stream=2, rate_per_s=1.0, arrivals="constant", max_in_flight=1)
    served = serve(rules_of(load, 2, "x"), one_second)
    assert [(send.due_s, send.at_s) for send, _ in served] == [(0, 0), (0.5, 1), (1, 2), (1.5, 3)]


@given(st.integers(1, 6), st.floats(0.5, 20), st.integers(0, 99))
def test_a_limit_is_kept_and_first_come_is_first_served(limit: int, rate: float, seed: int) -> None:
    load = LoadSpec((1,), "open", duration_s=5.0, rate_per_s=rate, arrivals="poisson", max_in_flight=limit)
    served = serve(rules_of(load, 1, str(seed)), lambda send: Random(send.turn.number).random())
    assert most_at_once(served) <= limit
    free = serve(rules_of(LoadSpec((1,), "open", duration_s=5.0, rate_per_s=rate), 1, str(seed)), one_second)
    in_order = sorted((send for send, _ in served), key=lambda send: send.turn.number)
    assert [send.due_s for send in in_order] == [send.due_s for send, _ in free]
    assert all(before.at_s <= after.at_s for before, after in pairwise(in_order))


def test_phases_of_an_open_loop_have_rates_and_mixes() -> None:
    phases = (
        Phase(rate_per_s=1.0, duration_s=2.0, warmup=True),
        Phase(rate_per_s=4.0, duration_s=2.0, weights={"chat": 1.0}),
        Phase(rate_per_s=0.0, duration_s=2.0),
        Phase(rate_per_s=2.0, duration_s=2.0, ramp_s=2.0),
    )
    rules = rules_of(LoadSpec((1,), "open", arrivals="constant", phases=phases), 1, "x")
    sends = rules.start()
    assert [send.due_s for send in sends] == [
        *(0, 1, 2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 3.75, 6, round(6 + math.sqrt(2), DIGITS)),
    ]
    assert Counter(send.part for send in sends) == {None: 4, "phase-1": 8}
    assert [send.turn.warmup for send in sends[:3]] == [True, True, False]
    assert rules.phase_starts_s() == (0, 2, 4, 6, 8)
    assert (rules.window().start_s, rules.window().end_s) == (2, 8)


STEPS = LoadSpec((4,), phases=(Phase(1, duration_s=2.5), Phase(4, duration_s=3.0), Phase(1, duration_s=2.0)))


def test_steps_up_at_once_and_down_with_the_request_in_hand() -> None:
    rules = rules_of(STEPS, 4, "x")
    served = serve(rules, one_second)
    by_stream = {stream: [send.at_s for send, _ in served if send.stream == stream] for stream in range(4)}
    assert by_stream[0] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert by_stream[1] == by_stream[2] == by_stream[3] == [2.5, 3.5, 4.5]
    assert rules.phase_starts_s() == (0, 2.5, 5.5, 7.5)


def test_ramps_are_evenly_spaced_lowest_first_up_and_highest_first_down() -> None:
    phases = (Phase(4, duration_s=8.0, ramp_s=4.0), Phase(2, duration_s=8.0, ramp_s=4.0))
    first, second = stages(LoadSpec((4,), phases=phases), 4)
    assert [first.active_s(stream) for stream in range(4)] == [(0, 8), (1, 8), (2, 8), (3, 8)]
    assert [second.active_s(stream) for stream in range(4)] == [(0, 8), (0, 8), (0, 2), (0, 0)]


def test_a_phase_of_requests_ends_with_the_last_of_them() -> None:
    phases = (
        Phase(1, requests_per_stream=1, warmup=True),
        Phase(3, requests_per_stream=2),
        Phase(2, duration_s=1.5),
    )
    rules = rules_of(LoadSpec((3,), phases=phases), 3, "x")
    served = serve(rules, lambda send: 1.0 + send.stream)
    assert sorted((send.stream, send.at_s) for send, _ in served) == [
        (0, 0), (0, 1), (0, 2), (0, 7), (0, 8), (1, 1), (1, 3), (1, 7), (2, 1), (2, 4),
    ]  # fmt: skip
    assert rules.phase_starts_s() == (0, 1, 7, 8.5)
    assert (rules.window().start_s, rules.window().end_s, rules.window().fault) == (1, 8.5, "")


def test_a_load_that_is_cut_short_has_no_window() -> None:
    rules = rules_of(LoadSpec((2,), phases=(Phase(2, requests_per_stream=3),)), 2, "x")
    rules.start()
    assert rules.window().fault == "the load's phases did not come to their end: its prompts ran out"


PHASE = st.builds(
    Phase,
    concurrency=st.integers(1, 6),
    duration_s=st.floats(0.5, 4),
    ramp_s=st.one_of(st.none(), st.floats(0.1, 0.5)),
) | st.builds(Phase, concurrency=st.integers(1, 6), requests_per_stream=st.integers(1, 3))


@settings(deadline=None)
@given(st.lists(PHASE, min_size=1, max_size=5), st.integers(0, 99))
def test_phases_never_overfill_and_one_seed_gives_one_course(phases: list[Phase], seed: int) -> None:
    most = max(phase.concurrency or 0 for phase in phases)
    load = LoadSpec((most,), phases=tuple(phases), think_s=0.2, think="exponential")

    def course() -> tuple[list[Served], tuple[float, ...]]:
        rules = rules_of(load, most, str(seed))
        served = serve(rules, lambda send: 0.05 + Random(f"{send.stream}/{send.turn.number}").random())
        return served, rules.phase_starts_s() or ()

    served, starts = course()
    assert (served, starts) == course()
    assert len(starts) == len(phases) + 1
    assert list(starts) == sorted(starts)
    assert most_at_once(served) <= most
    for stream in range(most):
        own = [(send.at_s, ended) for send, ended in served if send.stream == stream]
        assert all(ended <= at for (_, ended), (at, _) in pairwise(own))
    for index, phase in enumerate(phases):
        if phase.duration_s is not None:
            assert starts[index + 1] == starts[index] + phase.duration_s
    for send, _ in served:
        within = [
            p for p, (start, end) in zip(phases, pairwise(starts), strict=True) if start <= send.at_s < end
        ]
        assert any(send.stream < (p.concurrency or 0) or p.ramp_s for p in within)


def test_bursts_come_from_streams_of_their_own() -> None:
    load = LoadSpec(
        (2,), duration_s=4.0, bursts=(Burst(1.5, 3, times=2, every_s=1.0, traffic="chat"), Burst(2.0, 1))
    )
    rules = rules_of(load, 2, "x")
    served = serve(rules, one_second)
    on_top = [(send.stream, send.turn.number, send.at_s, send.part) for send, _ in served if send.stream >= 2]
    assert on_top == [
        (2, 0, 1.5, "burst-0"), (3, 0, 1.5, "burst-0"), (4, 0, 1.5, "burst-0"),
        (5, 0, 2.0, "burst-1"),
        (2, 1, 2.5, "burst-0"), (3, 1, 2.5, "burst-0"), (4, 1, 2.5, "burst-0"),
    ]  # fmt: skip
    assert sum(send.stream < 2 for send, _ in served) == 8
    assert rules.notes() == (
        "3 requests at once on top, at 1.5 s and 1 time more, every 1 s",
        "1 request at once on top, at 2 s",
    )
    assert (rules.window().start_s, rules.window().end_s) == (0, 4)


def test_a_load_without_phases_warms_up_before_its_bursts() -> None:
    load = LoadSpec((2,), duration_s=4.0, warmup_s=1.0, stagger_s=2.0, bursts=(Burst(2.0, 1),))
    first, second = stages(load, 2)
    assert (first.phase.duration_s, first.phase.ramp_s, first.phase.warmup) == (1.0, 1.0, True)
    assert (second.phase.duration_s, second.phase.ramp_s, second.phase.warmup) == (3.0, None, False)
    assert rules_of(load, 2, "x").phase_starts_s() is None


def test_only_plain_loads_have_drivers_of_their_own() -> None:
    assert driver_of(LoadSpec((1,), "burst", requests_per_stream=1)) == "burst"
    assert driver_of(LoadSpec((1,), duration_s=1.0, think_s=1.0)) == "closed"
    assert driver_of(CONSTANT) == driver_of(STEPS) == "paced"


def test_thinking_has_its_mean_and_is_a_stream_s_own() -> None:
    """The mean of n exponential draws scatters by 1 / sqrt(n): 5 of it."""
    pauses = Pauses(LoadSpec((4,), think_s=2.0, think="exponential", stagger_s=4.0), 4, "0/0/4")
    drawn = [pauses.think_s(0, number) for number in range(1, 2001)]
    assert sum(drawn) / 2000 == pytest.approx(2.0, rel=5 / math.sqrt(2000))
    assert drawn != [pauses.think_s(1, number) for number in range(1, 2001)]
    assert [pauses.first_s(stream) for stream in range(4)] == [0, 1, 2, 3]
    assert pauses.think_s(0, 0) == 0
    assert Pauses(LoadSpec((4,), think_s=2.0), 4, "x").think_s(3, 7) == 2.0
