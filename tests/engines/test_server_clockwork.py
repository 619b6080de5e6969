"""The wall-clock driver on a step machine whose every duration is known; the alarms under it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import uvloop

from engines.embedded.alarm import Alarm, LoopAlarm, TimerfdAlarm, make_alarm
from engines.embedded.clockwork import Clockwork
from engines.embedded.requests import NewRequest, StepResult
from governors.telemetry import StepRecord
from tests.engines.serving import until

STEP_S = 0.004


@dataclass
class CountingMachine:
    """Each request emits one token a step; `broken`: the next step raises."""

    left: dict[int, int] = field(default_factory=dict)
    starts_s: list[float] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    submitted: int = 0
    broken: bool = False

    def submit(self, request: NewRequest, now_s: float) -> int:
        self.submitted += 1
        self.left[self.submitted] = request.output_tokens
        return self.submitted

    def cancel(self, handle: int) -> bool:
        self.cancelled.append(handle)
        return self.left.pop(handle, None) is not None

    def step(self, now_s: float) -> StepResult | None:
        if self.broken:
            raise RuntimeError("bug")
        if not self.left:
            return None
        self.starts_s.append(now_s)
        handles = list(self.left)
        self.left = {handle: n - 1 for handle, n in self.left.items()}
        finished = [handle for handle, n in self.left.items() if n == 0]
        self.left = {handle: n for handle, n in self.left.items() if n}
        return StepResult(
            record(len(self.starts_s), now_s), ints(handles), ints([1] * len(handles)), ints(finished)
        )


def ints(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def record(step: int, start_s: float) -> StepRecord:
    return StepRecord(
        step, start_s, start_s + STEP_S, 1, 0, 0, 0, 0, 0, 0, None, 0, 0, 1, (), (), None, None, STEP_S,
        "full", None, None, 0, "steady",
    )  # fmt: skip


@dataclass
class Tap:
    """Notes when tokens arrive; `block_s`: how long it blocks the driver at the first of them."""

    block_s: float = 0.0
    times_s: list[float] = field(default_factory=list)
    finished: bool = False
    failure: str | None = None

    def advance(self, count: int, finished: bool) -> None:
        self.times_s.append(time.monotonic())
        if len(self.times_s) == 1:
            time.sleep(self.block_s)
        self.finished = finished

    def fail(self, message: str) -> None:
        self.failure = message


@dataclass
class Ledger:
    """Keeps what the driver books: (end of the step, lag)."""

    steps: list[tuple[float, float]] = field(default_factory=list)

    def stepped(self, result: StepResult, lag_s: float, own_s: float) -> None:
        assert own_s >= 0
        self.steps.append((result.record.end_s, lag_s))


async def drive(
    machine: CountingMachine, ledger: Ledger, scenario: Callable[[Clockwork], object]
) -> Clockwork:
    clockwork = Clockwork(machine, ledger, lambda: None, asyncio.get_running_loop())
    result = scenario(clockwork)
    if asyncio.iscoroutine(result):
        await result
    clockwork.stop("over")
    return clockwork


async def finish(tap: Tap) -> None:
    await until(lambda: tap.finished)


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_steps_chain_on_the_modelled_clock_and_tokens_are_never_early(runner: Callable[..., object]) -> None:
    machine, ledger, tap = CountingMachine(), Ledger(), Tap()

    async def scenario(clockwork: Clockwork) -> None:
        clockwork.submit(NewRequest(1, 20), tap)
        await finish(tap)

    runner(drive(machine, ledger, scenario))
    ends = [end_s for end_s, _ in ledger.steps]
    assert machine.starts_s[1:] == ends[:-1]  # exactly: overhead never adds up
    assert len(tap.times_s) == 20
    assert all(came_s >= end_s - 1e-6 for came_s, end_s in zip(tap.times_s, ends, strict=True))


def test_a_driver_that_is_held_up_says_how_far_it_fell_behind_and_catches_up() -> None:
    machine, ledger, tap = CountingMachine(), Ledger(), Tap(block_s=0.05)

    async def scenario(clockwork: Clockwork) -> None:
        clockwork.submit(NewRequest(1, 5), tap)
        await finish(tap)

    asyncio.run(drive(machine, ledger, scenario))
    assert ledger.steps[0][1] >= 0.05
    assert machine.starts_s[1] == ledger.steps[0][0]  # the model's clock went on regardless
    assert ledger.steps[1][1] >= 0.05 - STEP_S


def test_after_an_idle_period_the_clock_starts_at_now() -> None:
    machine, ledger, first, second = CountingMachine(), Ledger(), Tap(), Tap()

    async def scenario(clockwork: Clockwork) -> None:
        clockwork.submit(NewRequest(1, 2), first)
        await finish(first)
        await asyncio.sleep(0.03)
        before_s = time.monotonic()
        clockwork.submit(NewRequest(1, 2), second)
        await finish(second)
        assert machine.starts_s[2] >= before_s

    asyncio.run(drive(machine, ledger, scenario))
    assert machine.starts_s[2] > ledger.steps[1][0] + 0.03 - 2 * STEP_S


def test_cancelled_requests_get_nothing_more_and_active_counts_the_rest() -> None:
    machine, ledger, stays, goes = CountingMachine(), Ledger(), Tap(), Tap()

    async def scenario(clockwork: Clockwork) -> None:
        clockwork.submit(NewRequest(1, 10), stays)
        handle = clockwork.submit(NewRequest(1, 10), goes)
        assert clockwork.active == 2
        await until(lambda: goes.times_s)
        clockwork.cancel(handle)
        got = len(goes.times_s)
        clockwork.cancel(handle)
        assert clockwork.active == 1
        await finish(stays)
        assert len(goes.times_s) == got
        assert clockwork.active == 0

    asyncio.run(drive(machine, ledger, scenario))
    assert machine.cancelled == [2]


def test_a_failing_machine_stops_the_clock_and_tells_everyone(caplog: pytest.LogCaptureFixture) -> None:
    machine, tap, crashed = CountingMachine(broken=True), Tap(), []

    async def scenario() -> None:
        clockwork = Clockwork(machine, Ledger(), lambda: crashed.append(1), asyncio.get_running_loop())
        clockwork.submit(NewRequest(1, 3), tap)
        await asyncio.sleep(0.01)
        assert clockwork.failure is not None

    asyncio.run(scenario())
    assert crashed == [1]
    assert tap.failure is not None
    assert "failed inside a step" in tap.failure
    assert "RuntimeError: bug" in caplog.text


@pytest.mark.parametrize("kind", [TimerfdAlarm, LoopAlarm, make_alarm])
@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_alarms_ring_once_not_early_and_for_the_last_deadline(
    kind: Callable[..., Alarm], runner: Callable[..., object]
) -> None:
    async def scenario() -> None:
        rung: list[float] = []
        alarm = kind(asyncio.get_running_loop(), lambda: rung.append(time.monotonic()))
        deadline_s = time.monotonic() + 0.02
        alarm.at(time.monotonic() + 60)
        alarm.at(deadline_s)
        await asyncio.sleep(0.1)
        assert len(rung) == 1
        assert rung[0] >= deadline_s - 1e-3
        alarm.at(time.monotonic() - 5)
        await asyncio.sleep(0.05)
        assert len(rung) == 2
        alarm.at(time.monotonic() + 0.01)
        alarm.close()
        await asyncio.sleep(0.05)
        assert len(rung) == 2

    if "Timerfd" in kind.__name__ and sys.platform != "linux":
        pytest.skip("timerfd is Linux's own")
    runner(scenario())
