"""The virtual clock: when requests join, what each one's chunks are, when a run stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from engines.embedded.core import EngineCore, RequestTooLong
from engines.embedded.requests import StepResult
from engines.embedded.simulate import FINISHED, UNFINISHED, Arrival, Simulation, simulate
from engines.embedded.specs import AcceptanceSpec
from tests.engines.fakes import ALWAYS, LinearCost, Script, UnitCost, core_spec, scheduler


@dataclass
class Listed:
    """An open loop: every arrival is known."""

    arrivals: Sequence[Arrival]

    def start(self) -> Sequence[Arrival]:
        return self.arrivals

    def finished(self, stream: int, now_s: float) -> Sequence[Arrival]:
        return ()


@dataclass
class Closed:
    """`streams` clients, `each` requests a client, the next one `think_s` after the last one ended."""

    streams: int
    each: int
    output: int = 3
    think_s: float = 0.0
    sent: dict[int, int] = field(default_factory=dict)

    def start(self) -> Sequence[Arrival]:
        return [self._next(stream, 0.0) for stream in range(self.streams)]

    def finished(self, stream: int, now_s: float) -> Sequence[Arrival]:
        return [self._next(stream, now_s + self.think_s)] if self.sent[stream] < self.each else []

    def _next(self, stream: int, due_s: float) -> Arrival:
        self.sent[stream] = self.sent.get(stream, 0) + 1
        seed = 1_000 * stream + self.sent[stream]
        return Arrival(due_s, stream, prompt_tokens=2, output_tokens=self.output, acceptance_seed=seed)


def unit_core(depth: int = 0, seqs: int = 4) -> EngineCore:
    return EngineCore(core_spec(scheduler(seqs=seqs), k_max=depth), UnitCost(), Script(depths=[depth]))


def test_an_arrival_during_a_step_joins_at_its_end() -> None:
    source = Listed([Arrival(0.0, 0, 2, 4), Arrival(0.5, 1, 2, 2)])
    run = simulate(unit_core(), source)
    late = run.requests[1]
    assert (late.sent_s, late.first_token_s, late.done_s) == (0.5, 2.0, 3.0)
    assert [step.prefill_requests for step in run.steps] == [1, 1, 0, 0]


def test_an_idle_engine_sleeps_until_the_next_arrival() -> None:
    run = simulate(unit_core(), Listed([Arrival(7.25, 0, 2, 1)]))
    assert [(step.start_s, step.end_s) for step in run.steps] == [(7.25, 8.25)]
    assert run.end_s == 8.25


def test_arrivals_are_served_by_due_time_then_as_listed() -> None:
    source = Listed([Arrival(0.2, 0, 1, 1), Arrival(0.0, 1, 1, 1), Arrival(0.2, 2, 1, 1)])
    run = simulate(unit_core(seqs=1), source)
    assert [request.arrival.stream for request in run.requests] == [1, 0, 2]
    assert [request.done_s for request in run.requests] == [1.0, 2.0, 3.0]


def test_a_request_that_its_client_held_back_leaves_later_and_was_due_before() -> None:
    source = Listed([Arrival(0.0, 0, 1, 1, sent_s=3.0), Arrival(1.0, 1, 1, 1)])
    run = simulate(unit_core(), source)
    found = [(request.arrival.due_s, request.sent_s, request.done_s) for request in run.requests]
    assert found == [(1.0, 1.0, 2.0), (0.0, 3.0, 4.0)]


def test_chunks_carry_the_steps_time_and_all_its_tokens() -> None:
    """K=2, all accepted: 1 token from the prefill, then 3, then the last 1 of 5."""
    run = simulate(unit_core(depth=2), Listed([Arrival(0.0, 0, 2, 5), Arrival(1.0, 1, 2, 4)]))
    first, second = run.requests
    assert (first.chunk_times_s.tolist(), first.chunk_tokens.tolist()) == ([1.0, 2.0, 3.0], [1, 3, 1])
    assert (second.chunk_times_s.tolist(), second.chunk_tokens.tolist()) == ([2.0, 3.0], [1, 3])
    assert (first.first_token_s, first.done_s, first.outcome) == (1.0, 3.0, FINISHED)


def test_a_closed_loop_sends_when_its_stream_ended() -> None:
    run = simulate(unit_core(), Closed(streams=2, each=2, think_s=0.5))
    times = [(r.arrival.stream, r.sent_s, r.done_s) for r in run.requests]
    # both streams end at 3, think until 3.5 with the engine idle, and run 3 steps more
    assert times == [(0, 0.0, 3.0), (1, 0.0, 3.0), (0, 3.5, 6.5), (1, 3.5, 6.5)]


def test_until_starts_no_step_later_and_says_what_is_unfinished() -> None:
    run = simulate(unit_core(), Listed([Arrival(0.0, 0, 2, 9), Arrival(50.0, 1, 2, 1)]), until_s=2.5)
    assert [step.start_s for step in run.steps] == [0.0, 1.0, 2.0]
    assert run.end_s == 3.0
    (request,) = run.requests
    assert (request.outcome, request.done_s, request.chunk_tokens.tolist()) == (UNFINISHED, None, [1, 1, 1])


def test_a_request_that_never_ran_has_no_first_token() -> None:
    run = simulate(unit_core(seqs=1), Listed([Arrival(0.0, 0, 2, 9), Arrival(0.0, 1, 2, 9)]), until_s=2.0)
    waiting = run.requests[1]
    assert (waiting.first_token_s, waiting.done_s, len(waiting.chunk_times_s)) == (None, None, 0)


def test_no_traffic_is_no_step() -> None:
    run = simulate(unit_core(), Listed([]))
    assert (run.requests, run.steps, run.end_s) == ([], [], 0.0)


def test_a_core_that_ran_before_keeps_its_handles_apart() -> None:
    core = unit_core()
    simulate(core, Listed([Arrival(0.0, 0, 2, 2)]))
    again = simulate(core, Listed([Arrival(0.0, 5, 2, 3)]))
    assert [(r.arrival.stream, r.chunk_tokens.tolist()) for r in again.requests] == [(5, [1, 1, 1])]


def test_every_step_is_shown_to_the_caller() -> None:
    seen: list[StepResult] = []
    run = simulate(unit_core(), Closed(streams=3, each=2), on_step=seen.append)
    assert [result.record for result in seen] == run.steps


def test_a_request_that_can_never_run_is_an_error() -> None:
    with pytest.raises(RequestTooLong):
        simulate(unit_core(), Listed([Arrival(0.0, 0, 200, 200)]))


def mixed_run(seed: int) -> Simulation:
    acceptance = AcceptanceSpec(by_class={"default": (0.8, 0.6, 0.4)}, spread=0.6, drift=0.4)
    spec = core_spec(scheduler(seqs=8), acceptance=acceptance, k_max=3, seed=seed)
    return simulate(EngineCore(spec, LinearCost(), Script(depths=[3])), Closed(streams=12, each=4, output=30))


def as_lists(run: Simulation) -> list[object]:
    return [run.steps, [(r.chunk_times_s.tolist(), r.chunk_tokens.tolist(), r.done_s) for r in run.requests]]


def test_the_same_seed_gives_the_same_run() -> None:
    assert as_lists(mixed_run(3)) == as_lists(mixed_run(3))
    assert as_lists(mixed_run(3)) != as_lists(mixed_run(4))


def test_chunks_of_a_busy_run_add_up_to_the_steps() -> None:
    run = mixed_run(1)
    assert len(run.requests) == 48
    assert all(int(request.chunk_tokens.sum()) == 30 for request in run.requests)
    assert sum(step.emitted for step in run.steps) == 48 * 30
    ends = {step.end_s for step in run.steps}
    for request in run.requests:
        times = request.chunk_times_s.tolist()
        assert times == sorted(set(times))
        assert set(times) <= ends
        assert request.sent_s < times[0]
        assert times[-1] == request.done_s


def test_a_run_without_rejections_is_as_short_as_arithmetic_says() -> None:
    """30 tokens: 1 from the prefill, then 4 a step: 8 steps of decoding."""
    spec = core_spec(scheduler(seqs=8), acceptance=ALWAYS, k_max=3)
    run = simulate(EngineCore(spec, UnitCost(), Script(depths=[3])), Closed(streams=8, each=1, output=30))
    assert run.end_s == 1 + 8
