"""The wall-clock driver: each step's tokens leave when its modelled end has come.

A step begins at the *modelled* end of the one before, not at "now": the server's own overhead shortens the
sleep and never adds up. When the overhead outgrows a step, the driver falls behind; how far is the step's
lag. After an idle period the clock starts again at now.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from engines.embedded.alarm import make_alarm
from engines.embedded.requests import NewRequest, StepResult
from suites.grammar import being

log = logging.getLogger(__name__)

BEHIND_S = 0.02  # a lag that is worth a line in the log, at most one in SAY_EVERY_S
SAY_EVERY_S = 5.0


class StepMachine(Protocol):
    """What the driver needs of engines.embedded.core.EngineCore."""

    def submit(self, request: NewRequest, now_s: float) -> int: ...

    def cancel(self, handle: int) -> bool: ...

    def step(self, now_s: float) -> StepResult | None: ...


class Outlet(Protocol):
    """Where a request's tokens go; neither call may block."""

    def advance(self, count: int, finished: bool) -> None: ...

    def fail(self, message: str) -> None: ...


class StepListener(Protocol):
    """Told of each step after its tokens have left: how late that was, and the process time it cost."""

    def stepped(self, result: StepResult, lag_s: float, own_s: float) -> None: ...


class Clockwork:
    """Owns the machine: handlers submit and cancel, the rest happens at alarms. One event loop, no threads.

    `crashed` is called when the step machine raises: a fault of the engine, after which it does not go on.
    """

    def __init__(
        self,
        machine: StepMachine,
        listener: StepListener,
        crashed: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._machine = machine
        self._listener = listener
        self._crashed = crashed
        self._loop = loop
        self._alarm = make_alarm(loop, self._ring)
        self._outlets: dict[int, Outlet] = {}
        self._due: StepResult | None = None
        self._awake = False
        self._own_mark_s = 0.0
        self._said_s = -SAY_EVERY_S
        self.failure: str | None = None

    @property
    def active(self) -> int:
        """Requests that run or wait."""
        return len(self._outlets)

    def submit(self, request: NewRequest, outlet: Outlet) -> int:
        """Queues the request; returns its handle. Raises the machine's ValueError when it can never run."""
        handle = self._machine.submit(request, time.monotonic())
        self._outlets[handle] = outlet
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._wake)
        return handle

    def replace_machine(self, machine: StepMachine) -> None:
        """Another machine from the next request on. Raises RuntimeError while requests are open."""
        if self._outlets:
            raise RuntimeError(f"{being(len(self._outlets), 'request')} open")
        self._alarm.disarm()
        self._due = None
        self._awake = False
        self._machine = machine

    def cancel(self, handle: int) -> None:
        """Frees the request and its KV blocks at once; nothing happens when it has ended already."""
        if self._outlets.pop(handle, None) is not None:
            self._machine.cancel(handle)

    def stop(self, message: str) -> None:
        """No step any more; whoever still waits is told why."""
        self.failure = self.failure or message
        self._alarm.close()
        for outlet in self._outlets.values():
            outlet.fail(message)
        self._outlets.clear()

    def _wake(self) -> None:
        self._own_mark_s = time.process_time()
        self._begin(time.monotonic())

    def _begin(self, now_s: float) -> None:
        if self.failure is not None:
            return
        try:
            self._due = self._machine.step(now_s)
        except Exception:
            log.exception("the step machine failed; this is a fault of the embedded engine")
            self.stop("the embedded engine failed inside a step; see its log")
            self._crashed()
            return
        if self._due is None:
            self._awake = False
        else:
            self._alarm.at(self._due.record.end_s)

    def _ring(self) -> None:
        result, self._due = self._due, None
        if result is None:
            return
        self._deliver(result)
        end_s = result.record.end_s
        now_s, own_s = time.monotonic(), time.process_time()
        self._listener.stepped(result, max(0.0, now_s - end_s), own_s - self._own_mark_s)
        self._own_mark_s = own_s
        self._say_when_behind(now_s, now_s - end_s)
        self._begin(end_s)

    def _deliver(self, result: StepResult) -> None:
        outlets = self._outlets
        finished = set(result.finished.tolist())
        for handle, count in zip(result.handles.tolist(), result.counts.tolist(), strict=True):
            outlet = outlets.pop(handle, None) if handle in finished else outlets.get(handle)
            if outlet is not None:  # None: cancelled while the step ran
                outlet.advance(count, handle in finished)

    def _say_when_behind(self, now_s: float, lag_s: float) -> None:
        if lag_s > BEHIND_S and now_s - self._said_s > SAY_EVERY_S:
            self._said_s = now_s
            log.warning(
                "%.3f s behind the modelled clock: latencies seen by clients are not the model's", lag_s
            )
