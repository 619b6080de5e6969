"""The master's side of a cell, against workers that are scripted: starts, bursts, losses, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gevent
import pytest

from loadgen.records import CellKey
from loadgen.swarm.control import CLOCK, CellFailed, Control
from loadgen.swarm.orders import BURST, DONE, GO, ORDER, PING, PONG, READY, RECORDS, RELEASE, Order
from suites.canonical import content
from tests.loadgen.swarm.fleets import BURST as BURSTS
from tests.loadgen.swarm.fleets import CLOSED, suite_of

KEY = CellKey("off", 3, 0)
AHEAD_S = {"a": 0.0, "b": 1000.0}  # their clocks


class Scripted:
    """Two workers, a with two users. `script[kind]` says what a worker does on a message."""

    def __init__(self) -> None:
        self.alive = ["a", "b"]
        self.count = {"a": 2, "b": 1}
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.told: list[dict[str, Any]] = []
        self.digests = {"a": "same", "b": "same"}
        self.script: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        self.control = Control(self, self.told.append)

    def live(self) -> tuple[str, ...]:
        return tuple(self.alive)

    def users(self, worker: str) -> int:
        return self.count[worker]

    def name(self, worker: str) -> str:
        return f"worker {worker}"

    def spawn(self, users: int, host: str) -> None:
        assert (users, host) == (3, "http://x")

    def send(self, kind: str, data: dict[str, Any], worker: str) -> None:
        self.sent.append((kind, worker, data))
        gevent.spawn(self._answer, kind, data, worker)

    def hear(self, kind: str, worker: str, **data: Any) -> None:
        self.control.heard(kind, {"number": 1, **data}, worker)

    def done(self, worker: str, ends: list[dict[str, Any]]) -> None:
        self.hear(DONE, worker, ends=ends, faults=[], warnings=[], notes=[], cpu_s=0.1, wall_s=1.0)

    def run(self, load: Any = CLOSED) -> dict[str, Any]:
        return self.control.run(Order(1, "http://x", "m", content(suite_of(load)), KEY))

    def of(self, kind: str) -> dict[str, list[dict[str, Any]]]:
        return {worker: [d for k, w, d in self.sent if (k, w) == (kind, worker)] for worker in "ab"}

    def _answer(self, kind: str, data: dict[str, Any], worker: str) -> None:
        if kind == PING:
            self.control.heard(PONG, {**data, "answered_s": CLOCK() + AHEAD_S[worker]}, worker)
        elif kind in self.script:
            self.script[kind](worker, data)
        elif kind == ORDER:
            self.hear(READY, worker, users=self.count[worker], digest=self.digests[worker])


def end(stream: int, begun_s: float, ended_s: float) -> dict[str, Any]:
    return {"stream": stream, "begun_s": begun_s, "ended_s": ended_s}


def test_everyone_starts_at_one_time_by_their_own_clock_and_is_heard_in_ours() -> None:
    fleet = Scripted()

    def go(worker: str, data: dict[str, Any]) -> None:
        begun_s = data["start_s"]
        fleet.hear(RECORDS, worker, lines=[b"{}"], late_s=[0.001])
        fleet.done(worker, [end(stream, begun_s, begun_s + 2.0) for stream in data["streams"]])

    fleet.script[GO] = go
    said = fleet.run()
    orders = fleet.of(GO)
    assert [orders[worker][0]["streams"] for worker in "ab"] == [[0, 1], [2]]
    assert orders["b"][0]["start_s"] - orders["a"][0]["start_s"] == pytest.approx(1000.0, abs=0.05)
    starts = [stream["begun_s"] for part in said["workers"] for stream in part["ends"]]
    assert starts == pytest.approx([said["start_s"]] * 3, abs=0.05)
    assert [part["offset_s"] for part in said["workers"]] == pytest.approx([0.0, 1000.0], abs=0.05)
    assert [(told["worker"], told["lines"]) for told in fleet.told] == [
        ("worker a", ["{}"]),
        ("worker b", ["{}"]),
    ]


def test_a_burst_leaves_when_the_last_worker_has_ended_the_one_before() -> None:
    fleet = Scripted()
    due: list[float] = []

    def go(worker: str, data: dict[str, Any]) -> None:
        gevent.sleep(0.05 if worker == "b" else 0.0)
        due.append(CLOCK())
        fleet.hear(BURST, worker, burst=0)

    def release(worker: str, data: dict[str, Any]) -> None:
        fleet.hear(BURST, worker, burst=data["burst"])
        if data["burst"] == 2:
            fleet.done(worker, [])

    fleet.script |= {GO: go, RELEASE: release}
    fleet.run(BURSTS)
    releases = fleet.of(RELEASE)
    assert [data["burst"] for data in releases["a"]] == [data["burst"] for data in releases["b"]] == [1, 2]
    assert releases["a"][0]["due_s"] >= max(due)  # worker a had ended long before
    apart = [b["due_s"] - a["due_s"] for a, b in zip(releases["a"], releases["b"], strict=True)]
    assert apart == pytest.approx([1000.0, 1000.0], abs=0.05)


def test_a_worker_that_goes_missing_holds_nobody_up() -> None:
    fleet = Scripted()

    def go(worker: str, data: dict[str, Any]) -> None:
        if worker == "a":
            fleet.done(worker, [end(0, 1.0, 2.0), end(1, 1.0, 2.0)])
        else:
            fleet.alive.remove("b")

    fleet.script[GO] = go
    a, b = fleet.run()["workers"]
    assert a["lost_s"] is None
    assert b["lost_s"] is not None
    assert (b["streams"], b["ends"]) == ([2], [])


def test_a_worker_that_is_lost_before_the_start_is_done_without() -> None:
    fleet = Scripted()

    def order(worker: str, data: dict[str, Any]) -> None:
        if worker == "b":
            fleet.alive.remove("b")
            fleet.count["a"] = 3  # locust's next spawn
        else:
            fleet.hear(READY, worker, users=fleet.count[worker], digest="same")

    fleet.script |= {ORDER: order, GO: lambda worker, data: fleet.done(worker, [])}
    said = fleet.run()
    assert [(part["worker"], part["streams"]) for part in said["workers"]] == [("worker a", [0, 1, 2])]


def test_workers_that_make_other_prompts_do_not_share_a_cell() -> None:
    fleet = Scripted()
    fleet.digests["b"] = "another"
    with pytest.raises(CellFailed, match="worker a and worker b make other prompts: bring data sets"):
        fleet.run()


def test_a_worker_says_why_it_is_not_ready() -> None:
    fleet = Scripted()
    fleet.script[ORDER] = lambda worker, data: fleet.hear(READY, worker, fault="TrafficError: no such file")
    with pytest.raises(CellFailed, match="worker a: TrafficError: no such file"):
        fleet.run()


def test_a_number_of_users_that_is_not_that_of_the_streams_is_refused() -> None:
    fleet = Scripted()
    fleet.count["b"] = 2
    with pytest.raises(CellFailed, match="locust spawned 4 users for 3 streams"):
        fleet.run()
