"""The virtual-clock driver: the same step machine and traffic as over HTTP, without waiting for either."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engines.embedded.core import EngineCore
from engines.embedded.requests import NewRequest, StepResult
from governors.telemetry import StepRecord

FINISHED, UNFINISHED = "finished", "unfinished"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that is due at `due_s`. `stream`: which client; it may wait for this one to end.

    `sent_s`: when its client sends it, not before `due_s`; None = when it is due.
    """

    due_s: float
    stream: int
    prompt_tokens: int
    output_tokens: int
    traffic_class: str = "default"
    acceptance_seed: int = 0
    sent_s: float | None = None

    @property
    def leaves_s(self) -> float:
        """When the engine gets it."""
        return self.due_s if self.sent_s is None else self.sent_s


class RequestSource(Protocol):
    """A closed loop answers `finished` with the next requests; an open loop may start with them all."""

    def start(self) -> Sequence[Arrival]: ...

    def finished(self, stream: int, now_s: float) -> Sequence[Arrival]: ...


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedRequest:
    """Times are virtual seconds; `sent_s` is `arrival.leaves_s`, since this client is never late.

    `chunk_times_s` float64 (N,), `chunk_tokens` int64 (N,): one chunk for each step that emitted tokens.
    None = it had not happened when the simulation stopped.
    """

    arrival: Arrival
    sent_s: float
    first_token_s: float | None
    done_s: float | None
    chunk_times_s: NDArray[np.float64]
    chunk_tokens: NDArray[np.int64]
    outcome: str  # FINISHED | UNFINISHED


@dataclass(frozen=True, slots=True)
class Simulation:
    """`requests` in the order in which the engine took them; `end_s`: the virtual clock when it stopped."""

    requests: list[SimulatedRequest]
    steps: list[StepRecord]
    end_s: float


@dataclass(slots=True)
class _ChunkLog:
    """What each step emitted, regrouped by request once at the end."""

    handles: list[NDArray[np.int64]] = field(default_factory=list)
    counts: list[NDArray[np.int64]] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)

    def add(self, result: StepResult) -> None:
        self.handles.append(result.handles)
        self.counts.append(result.counts)
        self.times_s.append(result.record.end_s)

    def by_handle(self, first: int, count: int) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
        """(times, tokens) of the handles first..first + count - 1, each in step order."""
        empty = np.zeros(0, dtype=np.int64)
        handles = np.concatenate([empty, *self.handles])
        order = np.argsort(handles, kind="stable")
        sizes = [len(each) for each in self.handles]
        times = np.repeat(np.array(self.times_s, dtype=np.float64), sizes)[order]
        tokens = np.concatenate([empty, *self.counts])[order]
        edges = np.searchsorted(handles[order], np.arange(first, first + count + 1))
        return [(times[low:high], tokens[low:high]) for low, high in pairwise(edges.tolist())]


class _Clients:
    """The side of the traffic: arrivals by due time, and who asked for which handle."""

    def __init__(self, core: EngineCore, source: RequestSource) -> None:
        self._core = core
        self._source = source
        self._due: list[tuple[float, int, Arrival]] = []
        self._sequence = 0
        self.sent: list[Arrival] = []
        self.first_handle = 0
        self.done_s: dict[int, float] = {}
        for arrival in source.start():
            self._expect(arrival)

    @property
    def next_due_s(self) -> float | None:
        return self._due[0][0] if self._due else None

    def send(self, now_s: float) -> None:
        """Submits everything that is due by `now_s`, in due order."""
        while self._due and self._due[0][0] <= now_s:
            arrival = heapq.heappop(self._due)[2]
            request = NewRequest(
                prompt_tokens=arrival.prompt_tokens,
                output_tokens=arrival.output_tokens,
                traffic_class=arrival.traffic_class,
                acceptance_seed=arrival.acceptance_seed,
            )
            handle = self._core.submit(request, now_s)
            if not self.sent:
                self.first_handle = handle
            self.sent.append(arrival)

    def end(self, result: StepResult) -> None:
        """Requests that ended with this step; their streams may go on."""
        now_s = result.record.end_s
        for handle in result.finished.tolist():
            self.done_s[handle] = now_s
            for arrival in self._source.finished(self.sent[handle - self.first_handle].stream, now_s):
                self._expect(arrival)

    def _expect(self, arrival: Arrival) -> None:
        heapq.heappush(self._due, (arrival.leaves_s, self._sequence, arrival))
        self._sequence += 1


def simulate(
    core: EngineCore,
    source: RequestSource,
    until_s: float | None = None,
    on_step: Callable[[StepResult], None] | None = None,
) -> Simulation:
    """Runs `core` under `source` from virtual time 0 until the traffic ends or the clock reaches `until_s`.

    Requests that come in during a step join at its end, as in a server. Nobody else may drive `core`.
    Raises RequestTooLong for an arrival that can never run.
    """
    clients = _Clients(core, source)
    chunks = _ChunkLog()
    steps: list[StepRecord] = []
    now_s = 0.0
    while until_s is None or now_s < until_s:
        clients.send(now_s)
        result = core.step(now_s)
        if result is None:
            if clients.next_due_s is None:
                break
            now_s = clients.next_due_s
            continue
        now_s = result.record.end_s
        steps.append(result.record)
        chunks.add(result)
        clients.end(result)
        if on_step is not None:
            on_step(result)
    return Simulation(_requests(clients, chunks), steps, now_s)


def _requests(clients: _Clients, chunks: _ChunkLog) -> list[SimulatedRequest]:
    grouped = chunks.by_handle(clients.first_handle, len(clients.sent))
    requests = []
    for index, (arrival, (times, tokens)) in enumerate(zip(clients.sent, grouped, strict=True)):
        done_s = clients.done_s.get(clients.first_handle + index)
        requests.append(
            SimulatedRequest(
                arrival=arrival,
                sent_s=arrival.leaves_s,
                first_token_s=float(times[0]) if len(times) else None,
                done_s=done_s,
                chunk_times_s=times,
                chunk_tokens=tokens,
                outcome=UNFINISHED if done_s is None else FINISHED,
            )
        )
    return requests
