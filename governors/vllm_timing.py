"""What a vLLM worker did in a step: durations, graph mode, drafts proposed. Never waits for a GPU.

A worker may run in a process of its own, so what it saw travels on the step's ModelRunnerOutput (as a
WorkerReport in an extra attribute). With CUDA events the times of a step are read when a later one ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from governors.contract import GraphMode

STEPS_KEPT: Final = 4  # times that are not ready by then are given up
_STAMPS_A_STEP: Final = 4


class StepTimes(NamedTuple):
    """`ago`: steps before the one whose report carries it. Seconds; None = did not run, or was not timed."""

    ago: int
    target_s: float | None
    draft_s: float | None


class WorkerReport(NamedTuple):
    """Of one step. `drafted`: drafts a request that the drafter proposed in it, 0 = it did not run."""

    drafted: int
    graph_mode: str
    times: tuple[StepTimes, ...]


class WorkerClock(Protocol):
    """Marks points of the worker's work, reached in the order in which they were stamped.

    late: marks of a step are not reached when it ends, so that asking then is in vain.
    """

    @property
    def late(self) -> bool: ...

    def begin_step(self) -> None: ...

    def stamp(self) -> Any: ...

    def reached(self, mark: Any) -> bool: ...

    def seconds(self, begin: Any, end: Any) -> float: ...


class MonotonicClock:
    """For workers that compute on the CPU."""

    late = False

    def begin_step(self) -> None:
        return None

    def stamp(self) -> float:
        return time.monotonic()

    def reached(self, mark: float) -> bool:
        return True

    def seconds(self, begin: float, end: float) -> float:
        return end - begin


class CudaClock:
    """CUDA events of a fixed pool, on the stream that is current when the step begins (asking for it costs as
    much as recording). An event comes round again when its step is given up."""

    late = True

    def __init__(self, new_event: Callable[[], Any], current_stream: Callable[[], Any]) -> None:
        self._pool = [new_event() for _ in range((STEPS_KEPT + 2) * _STAMPS_A_STEP)]
        self._current_stream = current_stream
        self._stream: Any = None
        self._next = 0

    def begin_step(self) -> None:
        self._stream = self._current_stream()

    def stamp(self) -> Any:
        event = self._pool[self._next]
        self._next = (self._next + 1) % len(self._pool)
        event.record(self._stream)
        return event

    def reached(self, mark: Any) -> bool:
        return bool(mark.query())

    def seconds(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) * 1e-3


@dataclass(slots=True)
class _Step:
    number: int
    timed: bool
    drafted: int = 0
    graph_mode: GraphMode | None = None  # of the target's forward pass
    target: tuple[Any, Any] | None = None
    draft: tuple[Any, Any] | None = None


class WorkerLog:
    """The worker's last steps. `begin`, at most one `forward` and one `draft`, `end` for the report."""

    def __init__(self, clock: WorkerClock) -> None:
        self._clock = clock
        self._steps: deque[_Step] = deque(maxlen=STEPS_KEPT)
        self._current: _Step | None = None
        self._count = 0

    def begin(self, timed: bool) -> None:
        self._count += 1
        self._current = _Step(self._count, timed)
        if timed:
            self._clock.begin_step()

    def forward(self, mode: GraphMode, run: Callable[[], Any]) -> Any:
        """Runs a forward pass. The first of a step is the target's, later ones are not."""
        step = self._target_of(mode)
        if step is None:
            return run()
        begin = self._clock.stamp()
        result = run()
        step.target = (begin, self._clock.stamp())
        return result

    @contextmanager
    def forwarding(self, mode: GraphMode) -> Iterator[None]:
        """`forward` for a block."""
        step = self._target_of(mode)
        begin = None if step is None else self._clock.stamp()
        yield
        if step is not None:
            step.target = (begin, self._clock.stamp())

    def _target_of(self, mode: GraphMode) -> _Step | None:
        """The step whose target now runs, if it is to be timed."""
        step = self._current
        if step is None or step.graph_mode is not None:
            return None
        step.graph_mode = mode
        return step if step.timed else None

    def draft(self, run: Callable[[], Any], count: Callable[[Any], int]) -> Any:
        """Runs the drafter; `count` says how many drafts a request its result holds."""
        step = self._current
        if step is None:
            return run()
        begin = self._clock.stamp() if step.timed else None
        result = run()
        if step.timed:
            step.draft = (begin, self._clock.stamp())
        step.drafted = count(result)
        return result

    def end(self) -> WorkerReport | None:
        """After sample_tokens. None: no step had begun."""
        step, self._current = self._current, None
        if step is None:
            return None
        if step.timed:
            self._steps.append(step)
        mode = step.graph_mode or GraphMode.UNKNOWN
        return WorkerReport(step.drafted, str(mode), self._ready(step.number) if self._steps else ())

    def _ready(self, now: int) -> tuple[StepTimes, ...]:
        """Times of the steps that the worker's device is through with, each told once."""
        clock, found = self._clock, []
        while self._steps:
            step = self._steps[0]
            last = step.draft or step.target
            if last is not None and ((clock.late and step.number == now) or not clock.reached(last[1])):
                break
            found.append(StepTimes(now - step.number, self._seconds(step.target), self._seconds(step.draft)))
            self._steps.popleft()
        return tuple(found)

    def _seconds(self, span: tuple[Any, Any] | None) -> float | None:
        return None if span is None else self._clock.seconds(*span)


def worker_clock() -> WorkerClock:
    """CUDA events where torch has a CUDA device, the monotonic clock elsewhere."""
    import torch

    if not torch.cuda.is_available():
        return MonotonicClock()
    return CudaClock(lambda: torch.cuda.Event(enable_timing=True), torch.cuda.current_stream)


def graph_mode(runtime_mode: object) -> GraphMode:
    """vLLM's CUDAGraphMode of one forward pass."""
    return _MODES.get(getattr(runtime_mode, "name", None), GraphMode.UNKNOWN)


_MODES: Final[dict[str | None, GraphMode]] = {mode.name: mode for mode in GraphMode}
