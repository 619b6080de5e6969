"""Every kind of load by two workers over HTTP: what one process sends, once; and when a worker dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from loadgen.cell import drive_cell
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.together import NOBODY
from loadgen.traffic import TrafficMix
from loadgen.workers import Crew, Worker
from suites.model import Burst, LoadSpec, Phase, TrafficClass
from tests.loadgen.servers import Answer, Asked, event, serving, whole
from tests.loadgen.test_workers import children

pytestmark = pytest.mark.http

MIX = TrafficMix([TrafficClass("gsm8k"), TrafficClass("chat")], 0)
OPEN = LoadSpec((3,), "open", duration_s=1.0, rate_per_s=20.0, arrivals="poisson", warmup_s=0.2, timeout_s=20)
PHASES = (
    Phase(1, requests_per_stream=2, warmup=True),
    Phase(5, requests_per_stream=3, weights={"chat": 1.0}),
    Phase(2, requests_per_stream=2),
)
COUNTED = {
    "poisson": OPEN,
    "gamma": replace(OPEN, arrivals="gamma", cv=2.0),
    "constant": replace(OPEN, arrivals="constant"),
    "limited": replace(OPEN, max_in_flight=3),
    "rate steps": replace(
        OPEN,
        duration_s=None,
        warmup_s=0.0,
        phases=(Phase(duration_s=0.3, warmup=True), Phase(duration_s=0.5, rate_per_s=40.0, ramp_s=0.2)),
    ),
    "open, bursts on top": replace(OPEN, bursts=(Burst(0.3, 7, traffic="chat"), Burst(0.5, 2, 2, 0.2))),
    "steps": LoadSpec((5,), phases=PHASES, timeout_s=20),
    "thinking steps": LoadSpec((5,), phases=PHASES, think_s=0.02, think="exponential", timeout_s=20),
    "burst": LoadSpec((5,), mode="burst", requests_per_stream=3, warmup_requests=1, timeout_s=20),
    "thinking": LoadSpec((5,), requests_per_stream=3, think_s=0.02, stagger_s=0.1, timeout_s=20),
}
TIMED = {
    "ramps": LoadSpec(
        (6,),
        phases=(Phase(6, duration_s=0.6, ramp_s=0.4), Phase(1, duration_s=0.4, ramp_s=0.2)),
        timeout_s=20,
    ),
    "closed, bursts on top": LoadSpec((4,), duration_s=0.8, bursts=(Burst(0.3, 5),), timeout_s=20),
}

Kept = tuple[list[RequestRecord], CellRecord]


async def soon(writer: asyncio.StreamWriter, _: Asked) -> None:
    await asyncio.sleep(0.01)
    writer.write(whole(event("a", 1), event("b", 180)))


def drive(load: LoadSpec, answer: Answer = soon, asked: Counter[str] | None = None) -> Kept:
    key = CellKey("off", load.concurrency[0], 0)
    records: list[RequestRecord] = []

    async def noting(writer: asyncio.StreamWriter, request: Asked) -> None:
        if asked is not None:
            asked[request.body["messages"][0]["content"]] += 1
        await answer(writer, request)

    async def inside() -> CellRecord:
        async with serving(noting) as endpoint:
            return await drive_cell(endpoint, key, load, MIX.cell(key), on_record=records.append)

    return records, asyncio.run(inside())


def named(records: list[RequestRecord]) -> dict[str, tuple[str, bool]]:
    found = {record.request: (record.traffic_class, record.warmup) for record in records}
    assert len(found) == len(records)
    return found


@pytest.mark.parametrize("load", COUNTED.values(), ids=COUNTED.keys())
def test_two_workers_send_what_one_process_sends(load: LoadSpec) -> None:
    by_one: Counter[str] = Counter()
    by_two: Counter[str] = Counter()
    alone, one = drive(replace(load, workers=1), asked=by_one)
    shared, two = drive(replace(load, workers=2), asked=by_two)
    assert by_two == by_one
    assert named(shared) == named(alone)
    assert {record.outcome for record in shared} == {Outcome.DONE}
    assert (two.requests, two.phase_starts_s is None) == (one.requests, one.phase_starts_s is None)
    assert "2 worker processes drove the load" in two.notes
    assert not any("worker processes" in note for note in one.notes)
    assert not any("died" in fault for fault in two.invalid)
    if load.mode == "open":
        assert [due - two.window_start_s for due in dues(shared)] == pytest.approx(
            [due - one.window_start_s for due in dues(alone)], abs=2e-9
        )
        assert two.window_end_s - two.window_start_s == pytest.approx(one.window_end_s - one.window_start_s)


def dues(records: list[RequestRecord]) -> list[float]:
    return sorted(record.due_s for record in records)


@pytest.mark.parametrize("load", TIMED.values(), ids=TIMED.keys())
def test_what_ends_with_the_clock_is_shared_stream_by_stream(load: LoadSpec) -> None:
    """How many requests fit in is the server's matter; which prompt each of them takes is not."""
    alone, one = drive(load)
    shared, two = drive(replace(load, workers=2))
    both = named(alone).keys() & named(shared).keys()
    assert len(both) > len(alone) // 2
    assert {name: named(alone)[name] for name in both} == {name: named(shared)[name] for name in both}
    streams = load.concurrency[0] + sum(burst.requests for burst in load.bursts or ())
    for records, cell in ((alone, one), (shared, two)):
        assert {int(record.request.split("/s")[1].split("/")[0]) for record in records} == set(range(streams))
        assert cell.window_end_s - cell.window_start_s == pytest.approx(
            sum(phase.duration_s or 0.0 for phase in load.phases or ()) or load.duration_s
        )
        assert all(record.outcome is Outcome.DONE for record in records)


def test_the_backlog_is_that_of_all_workers() -> None:
    """Sixty are due within a second and none is answered before it is over: each worker knows of thirty."""

    async def late(writer: asyncio.StreamWriter, asked: Asked) -> None:
        await asyncio.sleep(1.5)
        await soon(writer, asked)

    load = replace(OPEN, arrivals="constant", warmup_s=0.0, workers=2)
    _, cell = drive(load, late)
    assert cell.notes[0] == (
        "open loop: constant arrivals, 60 requests/s offered; backlog (due, not answered) 60 at its end, "
        "at most 60 at 0.983 s"
    )


def test_a_limit_holds_over_all_workers_and_its_division_is_said() -> None:
    load = replace(OPEN, arrivals="constant", rate_per_s=100.0, duration_s=0.3, max_in_flight=3, workers=2)
    records, cell = drive(replace(load, warmup_s=0.0))
    under_way = sorted(
        [(record.sent_s or 0.0, 1) for record in records] + [(record.done_s or 0.0, -1) for record in records]
    )
    running = most = 0
    for _, change in under_way:
        running += change
        most = max(most, running)
    assert most <= 3
    assert "max_in_flight is shared out: each worker has at least 1 place of its own" in cell.notes
    assert not any("after they were due" in fault for fault in cell.invalid)


def test_a_burst_leaves_all_workers_at_one_time_when_the_last_has_ended() -> None:
    load = LoadSpec((5,), mode="burst", requests_per_stream=4, timeout_s=20, workers=2)

    async def uneven(writer: asyncio.StreamWriter, asked: Asked) -> None:
        await asyncio.sleep(0.001 * (len(asked.body["messages"][0]["content"]) % 50))
        await soon(writer, asked)

    records, cell = drive(load, uneven)
    bursts = [[r for r in records if r.request.endswith(f"/{turn}")] for turn in range(4)]
    assert [len(burst) for burst in bursts] == [5] * 4
    assert [len({record.due_s for record in burst}) for burst in bursts] == [1] * 4
    assert all((record.sent_s or 0.0) >= record.due_s for record in records)
    for before, after in pairwise(bursts):
        assert max(record.done_s or 0.0 for record in before) <= after[0].due_s
    assert (cell.window_start_s, cell.window_end_s) == (
        bursts[0][0].due_s,
        max(record.done_s or 0.0 for record in records),
    )


def test_a_phase_of_requests_ends_for_all_workers_with_the_last_of_them() -> None:
    """The first phase has one stream, so only one of the workers sends in it; the other waits."""
    records, cell = drive(replace(COUNTED["steps"], workers=2))
    starts = cell.phase_starts_s or ()
    assert len(starts) == 4
    by_phase = [
        [r for r in records if r.max_tokens and lower <= r.due_s < upper] for lower, upper in pairwise(starts)
    ]
    assert [len(phase) for phase in by_phase] == [2, 15, 4]
    for phase, end_s in zip(by_phase, starts[1:], strict=True):
        assert max(record.done_s or 0.0 for record in phase) == pytest.approx(end_s, abs=1e-6)
    assert (cell.window_start_s, cell.window_end_s) == (starts[1], starts[3])


LONG = {
    "open": (replace(OPEN, arrivals="constant", rate_per_s=30.0, duration_s=2.0), 180),
    "steps": (LoadSpec((5,), phases=(*PHASES, Phase(5, requests_per_stream=9)), timeout_s=20), 66),
    "burst": (LoadSpec((5,), mode="burst", requests_per_stream=20, timeout_s=20), 100),
}


@pytest.mark.parametrize(("load", "planned"), LONG.values(), ids=LONG.keys())
@pytest.mark.parametrize("killed", [1, 2])
def test_a_worker_that_is_killed_is_stated_and_nobody_waits_for_it(
    load: LoadSpec, planned: int, killed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After twenty answers the server waits for the death, then goes on with whoever is left."""
    key = CellKey("off", load.concurrency[0], 0)
    records: list[RequestRecord] = []
    pids: list[int] = []
    dead = asyncio.Event()
    asked = 0
    started = Crew._started

    async def noting(crew: Crew, number: int) -> Worker:
        worker = await started(crew, number)
        pids.append(worker.process.pid)
        return worker

    async def answer(writer: asyncio.StreamWriter, request: Asked) -> None:
        nonlocal asked
        asked += 1
        if asked > 20:
            await dead.wait()
        await soon(writer, request)

    def keep(record: RequestRecord) -> None:
        records.append(record)
        if len(records) == 20:
            for pid in pids[:killed]:
                os.kill(pid, signal.SIGKILL)
            dead.set()

    async def inside() -> CellRecord:
        async with serving(answer) as endpoint:
            by_two = replace(load, workers=2)
            return await drive_cell(endpoint, key, by_two, MIX.cell(key), on_record=keep)

    monkeypatch.setattr(Crew, "_started", noting)
    cell = asyncio.run(inside())
    assert len([fault for fault in cell.invalid if "died (SIGKILL)" in fault]) == killed
    assert (NOBODY in cell.invalid) == (killed == 2)
    assert cell.requests == len(records)
    assert len(records) == 20 if killed == 2 else 20 < len(records) < planned
    assert {record.outcome for record in records} == {Outcome.DONE}
    assert children() == []


def test_cancelling_an_open_loop_keeps_what_is_under_way_and_drops_what_is_not_due() -> None:
    load = replace(
        OPEN, arrivals="constant", rate_per_s=0.001, duration_s=7200.0, bursts=(Burst(0.0, 4),), workers=2
    )
    key = CellKey("off", 3, 0)
    records: list[RequestRecord] = []
    came = asyncio.Event()
    seen = 0

    async def silent(writer: asyncio.StreamWriter, _: Asked) -> None:
        nonlocal seen
        seen += 1
        if seen == 5:  # the burst, and what is due at once
            came.set()
        await asyncio.sleep(30)

    async def inside() -> None:
        async with serving(silent) as endpoint:
            task = asyncio.create_task(
                drive_cell(endpoint, key, load, MIX.cell(key), on_record=records.append)
            )
            await came.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert children() == []

    asyncio.run(inside())
    assert {record.outcome for record in records} == {Outcome.CANCELLED}
    assert len(records) == seen
