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
    """Marks points of the worker's work; `seconds` is None until the second mark is reached."""

    def stamp(self) -> Any: ...

    def seconds(self, begin: Any, end: Any) -> float | None: ...


class MonotonicClock:
    """For workers that compute on the CPU."""

    def stamp(self) -> float:
        return time.monotonic()

    def seconds(self, begin: float, end: float) -> float | None:
        return end - begin


class CudaClock:
    """CUDA events of a fixed pool, on the current stream; one comes round again when its step is given up."""

    def __init__(self, new_event: Callable[[], Any]) -> None:
        self._pool = [new_event() for _ in range((STEPS_KEPT + 2) * _STAMPS_A_STEP)]
        self._next = 0

    def stamp(self) -> Any:
        event = self._pool[self._next]
        self._next = (self._next + 1) % len(self._pool)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float | None:
        return begin.elapsed_time(end) * 1e-3 if end.query() else None


@dataclass(slots=True)
class _Step:
    number: int
    timed: bool
    drafted: int = 0
    graph_mode: GraphMode = GraphMode.UNKNOWN
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

    def forward(self, mode: GraphMode, run: Callable[[], Any]) -> Any:
        """Runs the target's forward pass; see `forwarding`."""
        with self.forwarding(mode):
            return run()

    @contextmanager
    def forwarding(self, mode: GraphMode) -> Iterator[None]:
        """The first forward pass of a step is the target's, later ones are not."""
        step = self._current
        if step is None or step.target is not None or not step.timed:
            yield
            return
        step.graph_mode = mode
        begin = self._clock.stamp()
        step.target = (begin, begin)
        yield
        step.target = (begin, self._clock.stamp())

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
        return WorkerReport(step.drafted, str(step.graph_mode), self._ready(step.number))

    def _ready(self, now: int) -> tuple[StepTimes, ...]:
        found = []
        while self._steps:
            step = self._steps[0]
            target_s, target_ready = self._seconds(step.target)
            draft_s, draft_ready = self._seconds(step.draft)
            if not (target_ready and draft_ready):
                break
            found.append(StepTimes(now - step.number, target_s, draft_s))
            self._steps.popleft()
        return tuple(found)

    def _seconds(self, span: tuple[Any, Any] | None) -> tuple[float | None, bool]:
        if span is None:
            return None, True
        seconds = self._clock.seconds(*span)
        return seconds, seconds is not None


def worker_clock() -> WorkerClock:
    """CUDA events where torch has a CUDA device, the monotonic clock elsewhere."""
    import torch

    if not torch.cuda.is_available():
        return MonotonicClock()
    return CudaClock(lambda: torch.cuda.Event(enable_timing=True))


def graph_mode(runtime_mode: object) -> GraphMode:
    """vLLM's CUDAGraphMode of one forward pass."""
    name = str(getattr(runtime_mode, "name", "")).lower()
    return GraphMode(name) if name in _MODES else GraphMode.UNKNOWN


_MODES: Final = frozenset(str(mode) for mode in GraphMode)
