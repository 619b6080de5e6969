"""What the worker's hooks note: times when they are ready and not before, graph mode, drafts proposed."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from governors.contract import GraphMode
from governors.vllm_hooks import (
    REPORT,
    TIMED,
    drafts_a_request,
    hook_around,
    hook_speculator,
    hook_steps,
    timed_context,
)
from governors.vllm_timing import STEPS_KEPT, CudaClock, StepTimes, WorkerLog, graph_mode


class FakeGpu:
    """Events on a stream that the GPU reaches only when it is told to."""

    def __init__(self) -> None:
        self.recorded = 0
        self.reached = 0
        self.made = 0
        self.asked = 0
        self.stream = object()

    def clock(self) -> CudaClock:
        return CudaClock(self.event, lambda: self.stream)

    def event(self) -> Any:
        gpu, at = self, [0]
        self.made += 1

        def record(stream: object) -> None:
            assert stream is gpu.stream
            gpu.recorded += 1
            at[0] = gpu.recorded

        def query() -> bool:
            gpu.asked += 1
            return at[0] <= gpu.reached

        def elapsed_time(other: Any) -> float:
            assert query(), "a host sync"
            return float(other.at[0] - at[0])

        return SimpleNamespace(record=record, query=query, elapsed_time=elapsed_time, at=at)


class Ticks:
    late = False

    def __init__(self) -> None:
        self.now = 0.0

    def begin_step(self) -> None:
        return None

    def stamp(self) -> float:
        self.now += 1.0
        return self.now

    def reached(self, mark: float) -> bool:
        return mark <= self.now

    def seconds(self, begin: float, end: float) -> float:
        return end - begin


def one_step(log: WorkerLog, drafts: int | None = 3, timed: bool = True) -> Any:
    log.begin(timed)
    log.forward(GraphMode.FULL, lambda: None)
    if drafts is not None:
        log.draft(lambda: [[1] * drafts], drafts_a_request)
    return log.end()


def test_on_a_cpu_the_times_of_a_step_come_with_it() -> None:
    log = WorkerLog(Ticks())
    assert one_step(log) == (3, "full", (StepTimes(0, 1.0, 1.0),))
    assert one_step(log, drafts=None) == (0, "full", (StepTimes(0, 1.0, None),))


def test_cuda_times_come_a_step_late_without_waiting() -> None:
    gpu = FakeGpu()
    log = WorkerLog(gpu.clock())
    assert one_step(log).times == ()
    gpu.reached = gpu.recorded
    assert one_step(log).times == (StepTimes(1, 0.001, 0.001),)
    assert one_step(log).times == ()
    gpu.reached = gpu.recorded
    assert one_step(log).times == (StepTimes(2, 0.001, 0.001), StepTimes(1, 0.001, 0.001))


def test_a_step_that_was_just_launched_is_not_asked_after() -> None:
    """A query costs some microseconds, and its answer is known."""
    gpu = FakeGpu()
    log = WorkerLog(gpu.clock())
    one_step(log)
    assert gpu.asked == 0
    gpu.reached = gpu.recorded
    one_step(log)
    assert gpu.asked == 1 + 2  # the older one once; the fake asks twice more in elapsed_time


def test_a_gpu_that_never_answers_costs_no_memory() -> None:
    gpu = FakeGpu()
    log = WorkerLog(gpu.clock())
    made = gpu.made
    for _ in range(1000):
        assert one_step(log).times == ()
    assert gpu.made == made
    assert len(log._steps) <= STEPS_KEPT


def test_events_come_round_only_when_their_step_is_given_up() -> None:
    gpu = FakeGpu()
    log = WorkerLog(gpu.clock())
    for _ in range(STEPS_KEPT):
        one_step(log)
    gpu.reached = gpu.recorded
    times = one_step(log).times
    assert [found.target_s for found in times] == [0.001] * len(times)
    assert len(times) == STEPS_KEPT - 1  # the oldest made room for the step that reports


def test_without_timing_drafts_and_graph_mode_are_told_and_no_event_is_recorded() -> None:
    gpu = FakeGpu()
    log = WorkerLog(gpu.clock())
    assert one_step(log, timed=False) == (3, "full", ())
    assert gpu.recorded == 0


def test_passes_outside_a_step_are_left_alone() -> None:
    log = WorkerLog(Ticks())
    assert log.forward(GraphMode.FULL, lambda: 5) == 5
    assert log.draft(lambda: 6, drafts_a_request) == 6
    assert log.end() is None


def test_the_second_pass_of_a_step_is_not_the_targets() -> None:
    log = WorkerLog(Ticks())
    log.begin(True)
    log.forward(GraphMode.PIECEWISE, lambda: None)
    log.forward(GraphMode.FULL, lambda: None)
    assert log.end() == (0, "piecewise", (StepTimes(0, 1.0, None),))


class Runner:
    """A model runner of vLLM, so far as it is hooked."""

    num_speculative_steps = 4

    def __init__(self) -> None:
        self.speculator = SimpleNamespace(propose=lambda *_, **__: "drafts")

    def execute_model(self, scheduler_output: Any, intermediate_tensors: Any = None) -> None:
        self._model_forward(scheduler_output)

    def _model_forward(self, inputs: Any) -> str:
        return "logits"

    def propose_draft_token_ids(self, scheduler_output: Any) -> Any:
        return SimpleNamespace(shape=(2, 3))

    def sample_tokens(self, grammar_output: Any) -> Any:
        self.propose_draft_token_ids(grammar_output)
        return SimpleNamespace(_model_runner_output=SimpleNamespace())


def scheduled(tokens: int = 4, **more: Any) -> Any:
    return SimpleNamespace(total_num_scheduled_tokens=tokens, **more)


def hooked(log: WorkerLog) -> type[Runner]:
    class Hooked(Runner):
        pass

    hook_steps(Hooked, log)
    hook_around(Hooked, "_model_forward", lambda call: log.forward(GraphMode.NONE, call))
    hook_around(Hooked, "propose_draft_token_ids", lambda call: log.draft(call, drafts_a_request))
    return Hooked


def test_a_hooked_runner_reports_on_its_output_even_if_wrapped() -> None:
    runner = hooked(WorkerLog(Ticks()))()
    runner.execute_model(scheduled(**{TIMED: True}))
    result = runner.sample_tokens(None)
    assert getattr(result._model_runner_output, REPORT) == (3, "none", (StepTimes(0, 1.0, 1.0),))


def test_a_hooked_runner_says_nothing_of_steps_without_a_gate_or_tokens() -> None:
    runner = hooked(WorkerLog(Ticks()))()
    for output in (scheduled(), scheduled(tokens=0, **{TIMED: True})):
        runner.execute_model(output)
        assert not hasattr(runner.sample_tokens(None)._model_runner_output, REPORT)


def test_runner_v2_speculator_is_hooked_once_and_counts_what_it_was_asked() -> None:
    log, runner = WorkerLog(Ticks()), Runner()
    hook_speculator(runner, log)
    hook_speculator(runner, log)
    for asked, expected in (({"num_speculative_tokens": 2}, 2), ({}, 4)):
        log.begin(True)
        assert runner.speculator.propose(1, **asked) == "drafts"
        assert log.end() == (expected, "unknown", (StepTimes(0, None, 1.0),))


def test_runner_v2_context_times_what_runs_inside() -> None:
    log = WorkerLog(Ticks())

    @contextmanager
    def context(*args: Any, **kwargs: Any) -> Any:
        yield "inner"

    timed = timed_context(context, log)
    log.begin(True)
    with timed(1, cudagraph_runtime_mode=SimpleNamespace(name="PIECEWISE")) as inner:
        assert inner == "inner"
    assert log.end() == (0, "piecewise", (StepTimes(0, 1.0, None),))


def test_graph_modes_by_vllms_names() -> None:
    names = ("FULL", "PIECEWISE", "NONE", "FULL_DECODE_ONLY")
    assert [graph_mode(SimpleNamespace(name=name)) for name in names] == [
        GraphMode.FULL,
        GraphMode.PIECEWISE,
        GraphMode.NONE,
        GraphMode.UNKNOWN,
    ]
