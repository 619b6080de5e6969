"""The master's side of a cell: workers get ready, start together, are heard, and are missed when gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import gevent
import gevent.event

from loadgen.burst import burst_turns
from loadgen.swarm.merge import deal
from loadgen.swarm.offset import ClockOffset, OffsetEstimate, Ping
from loadgen.swarm.orders import BURST, CANCEL, DONE, GO, ORDER, PING, PONG, READY, RECORDS, RELEASE, Order
from suites.grammar import counted
from suites.model import LoadSpec

CLOCK = time.monotonic
PINGS = 12  # before a cell
PING_EVERY_S = 1.0  # in it
PING_GAP_S = 0.004
LOOK_S = 0.2
READY_S = 600.0  # a data set may have to be read
START_LEAD_S = 0.05  # from the word to go to the start itself
BURST_LEAD_S = 0.005
UNSAID: dict[str, Any] = {
    "faults": [],
    "warnings": [],
    "notes": [],
    "cpu_s": 0.0,
    "wall_s": 0.0,
}  # by the lost
TRIES = 3  # when a worker is lost before the start


class Workers(Protocol):
    """What this needs of locust's master."""

    def live(self) -> tuple[str, ...]: ...

    def users(self, worker: str) -> int: ...

    def name(self, worker: str) -> str: ...

    def send(self, kind: str, data: dict[str, Any], worker: str) -> None: ...

    def spawn(self, users: int, host: str) -> None:
        """As many users in all, by the time it returns."""
        ...


class CellFailed(Exception):
    """The cell could not begin; the message names the worker and the mend."""


@dataclass(slots=True)
class Part:
    """One worker's part of a cell. `ready`, `done`: what it said; `lost_s`: when it was missed."""

    users: int
    streams: tuple[int, ...] = ()
    ready: Mapping[str, Any] | None = None
    done: Mapping[str, Any] | None = None
    lost_s: float | None = None
    bursts: int = 0  # that its streams have ended
    first_offset_s: float | None = None


@dataclass(slots=True)
class _Cell:
    order: Order
    load: LoadSpec
    parts: dict[str, Part]
    changed: gevent.event.Event = field(default_factory=gevent.event.Event)
    released: int = 1

    def here(self) -> dict[str, Part]:
        return {worker: part for worker, part in self.parts.items() if part.lost_s is None}


class Clocks:
    """Pings workers and knows their offsets."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._estimates: dict[str, OffsetEstimate] = {}
        self._sent_s: dict[tuple[str, int], float] = {}
        self._number = 0

    def ping(self, worker: str) -> None:
        self._number += 1
        self._sent_s[worker, self._number] = CLOCK()
        self._workers.send(PING, {"number": self._number}, worker)

    def pong(self, worker: str, data: Mapping[str, Any]) -> None:
        sent_s = self._sent_s.pop((worker, data["number"]), None)
        if sent_s is not None:
            estimate = self._estimates.setdefault(worker, OffsetEstimate())
            estimate.add(Ping(sent_s, data["answered_s"], CLOCK()))

    def of(self, worker: str) -> ClockOffset | None:
        """None: it never answered."""
        estimate = self._estimates.get(worker)
        return None if estimate is None else estimate.at(CLOCK())


class Control:
    """`run(order)` drives one cell and returns what to say of it; `tell` gets the records on the way."""

    def __init__(self, workers: Workers, tell: Callable[[dict[str, Any]], None]) -> None:
        self._workers = workers
        self._tell = tell
        self._cell: _Cell | None = None
        self.clocks = Clocks(workers)

    def heard(self, kind: str, data: Mapping[str, Any], worker: str) -> None:
        """A message of a worker."""
        cell = self._cell
        if kind == PONG:
            return self.clocks.pong(worker, data)
        if cell is None or data["number"] != cell.order.number or worker not in cell.parts:
            return None
        part = cell.parts[worker]
        if kind == READY:
            part.ready = data
        elif kind == DONE:
            part.done = data
        elif kind == RECORDS:
            self._pass_on(worker, data)
        elif kind == BURST:
            part.bursts = data["burst"] + 1
            self._next_burst(cell)
        cell.changed.set()

    def cancel(self) -> None:
        """The cell under way ends with what it has."""
        for worker in self._cell.here() if self._cell else ():
            self._workers.send(CANCEL, {}, worker)

    def run(self, order: Order) -> dict[str, Any]:
        """Raises CellFailed."""
        for _ in range(TRIES):
            cell = self._cell = self._gathered(order)
            if len(cell.here()) == len(cell.parts):
                break
        else:
            raise CellFailed("workers were lost before the cell could begin; see their logs")
        _check_ready(cell, self._workers)
        start_s = self._start(cell)
        pinged_s = start_s
        while any(part.done is None for part in cell.here().values()):
            self._wait(cell, LOOK_S)
            if CLOCK() - pinged_s >= PING_EVERY_S:
                pinged_s = CLOCK()
                for worker in cell.here():
                    self.clocks.ping(worker)
        self._cell = None
        return {
            "start_s": start_s,
            "workers": [self._said(worker, part) for worker, part in cell.parts.items()],
        }

    def _gathered(self, order: Order) -> _Cell:
        """Users spawned, clocks compared, everyone ready or lost."""
        self._workers.spawn(order.key.concurrency, order.base_url)
        users = {worker: self._workers.users(worker) for worker in self._workers.live()}
        parts = {worker: Part(count) for worker, count in users.items() if count}
        cell = self._cell = _Cell(order, order.read_suite().load, parts)
        for _ in range(PINGS):
            for worker in cell.parts:
                self.clocks.ping(worker)
            gevent.sleep(PING_GAP_S)
        for worker in cell.parts:
            self._workers.send(ORDER, order.to_json(), worker)
        until_s = CLOCK() + READY_S
        while any(part.ready is None for part in cell.here().values()) and CLOCK() < until_s:
            self._wait(cell, LOOK_S)
        return cell

    def _wait(self, cell: _Cell, most_s: float) -> None:
        """For a message; then looks who is missing."""
        cell.changed.wait(most_s)
        cell.changed.clear()
        live = self._workers.live()
        for worker, part in cell.here().items():
            if worker not in live and part.done is None:
                part.lost_s = CLOCK()
                self._next_burst(cell)

    def _start(self, cell: _Cell) -> float:
        dealt = deal({worker: part.users for worker, part in cell.parts.items()})
        start_s = CLOCK() + START_LEAD_S + self._slowest_s(cell)
        for worker, part in cell.parts.items():
            offset = self._offset(worker)
            part.streams, part.first_offset_s = dealt[worker], offset.offset_s
            self._send(cell, GO, {"streams": list(part.streams), "start_s": offset.theirs(start_s)}, worker)
        return start_s

    def _next_burst(self, cell: _Cell) -> None:
        load, here = cell.load, cell.here()
        if load.mode != "burst" or not here or min(part.bursts for part in here.values()) < cell.released:
            return
        if cell.released < len(burst_turns(load)):
            due_s = CLOCK() + BURST_LEAD_S + self._slowest_s(cell)
            for worker in here:
                due = {"burst": cell.released, "due_s": self._offset(worker).theirs(due_s)}
                self._send(cell, RELEASE, due, worker)
            cell.released += 1

    def _send(self, cell: _Cell, kind: str, data: dict[str, Any], worker: str) -> None:
        self._workers.send(kind, {"number": cell.order.number, **data}, worker)

    def _slowest_s(self, cell: _Cell) -> float:
        """A message takes as long as half a round trip; four of them are a margin."""
        return 4 * max((self._offset(worker).error_s for worker in cell.here()), default=0.0)

    def _offset(self, worker: str) -> ClockOffset:
        offset = self.clocks.of(worker)
        if offset is None:
            raise CellFailed(f"{self._workers.name(worker)} answers no ping; restart it")
        return offset

    def _pass_on(self, worker: str, data: Mapping[str, Any]) -> None:
        self._tell(
            {
                "kind": "records",
                "worker": self._workers.name(worker),
                "offset_s": self._offset(worker).offset_s,
                "lines": [line.decode() for line in data["lines"]],
                "late_s": data["late_s"],
            }
        )

    def _said(self, worker: str, part: Part) -> dict[str, Any]:
        """A worker's part, in our clock."""
        offset, done = self._offset(worker), part.done or {}
        ends = [
            {
                "stream": end["stream"],
                "begun_s": None if end["begun_s"] is None else offset.ours(end["begun_s"]),
                "ended_s": offset.ours(end["ended_s"]),
            }
            for end in done.get("ends", ())
        ]
        return {
            "worker": self._workers.name(worker),
            "streams": list(part.streams),
            "ends": ends,
            "lost_s": part.lost_s,
            **{name: done.get(name, empty) for name, empty in UNSAID.items()},
            "offset_s": offset.offset_s,
            "error_s": offset.error_s,
            "moved_s": offset.offset_s - (part.first_offset_s or 0.0),
        }


def _check_ready(cell: _Cell, workers: Workers) -> None:
    digests: dict[str, str] = {}
    for worker, part in cell.parts.items():
        name, said = workers.name(worker), part.ready
        if said is None:
            raise CellFailed(f"{name} was not ready in {READY_S:g} s; see its log")
        if "fault" in said:
            raise CellFailed(f"{name}: {said['fault']}")
        part.users = said["users"]
        digests.setdefault(said["digest"], name)
    if len(digests) > 1:
        names = " and ".join(list(digests.values())[:2])
        raise CellFailed(f"{names} make other prompts: bring data sets and depthgate to the same state there")
    have, wanted = sum(part.users for part in cell.parts.values()), cell.order.key.concurrency
    if have != wanted:
        raise CellFailed(f"locust spawned {counted(have, 'user')} for {counted(wanted, 'stream')}; run again")
