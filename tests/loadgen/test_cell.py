"""Whole cells against scripted servers: loads, windows, records, and why a cell is invalid."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import pytest

from engines.contract import Endpoint
from loadgen import closed
from loadgen.cell import drive_cell, engine_faults, lateness_notes, odd_counters, queue_notes
from loadgen.counters import EngineCounters, EngineLag
from loadgen.journal import Journal, JournalError
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.traffic import TrafficMix
from suites.model import LoadSpec, TrafficClass
from tests.loadgen.servers import Answer, Asked, event, response, says, serving, whole

pytestmark = pytest.mark.http
KEY = CellKey("off", 3, 1)
BURST = LoadSpec((3,), mode="burst", requests_per_stream=2, warmup_requests=1, timeout_s=5)
CLOSED = LoadSpec((3,), mode="closed", requests_per_stream=4, warmup_requests=1, timeout_s=5)
MIX = TrafficMix([TrafficClass("gsm8k"), TrafficClass("chat")], 0)
GOOD = says(whole(event("a", 1), event("b", 3)))

Kept = tuple[list[RequestRecord], CellRecord]


async def drive(endpoint: Endpoint, load: LoadSpec, key: CellKey = KEY) -> Kept:
    records: list[RequestRecord] = []
    cell = await drive_cell(endpoint, key, load, MIX.cell(key), on_record=records.append)
    return records, cell


def run(answer: Answer, load: LoadSpec, gets: dict[str, Callable[[], str]] | None = None) -> Kept:
    async def inside() -> Kept:
        async with serving(answer, gets) as endpoint:
            return await drive(endpoint, load)

    return asyncio.run(inside())


def without_machine(cell: CellRecord) -> tuple[str, ...]:
    """Faults that a busy test machine cannot cause."""
    return tuple(fault for fault in cell.invalid if "load generator" not in fault)


def turns(records: list[RequestRecord]) -> dict[int, list[RequestRecord]]:
    numbered: dict[int, list[RequestRecord]] = {}
    for record in records:
        numbered.setdefault(int(record.request.rsplit("/", 1)[1]), []).append(record)
    return numbered


def test_bursts_go_together_and_one_after_another() -> None:
    records, cell = run(GOOD, BURST)
    bursts = turns(records)
    assert [len(bursts[turn]) for turn in range(3)] == [3, 3, 3]
    for turn, burst in bursts.items():
        assert len({record.due_s for record in burst}) == 1
        assert all(record.warmup == (turn == 0) for record in burst)
    for before, after in pairwise(bursts[turn] for turn in range(3)):
        assert max(record.done_s or 0.0 for record in before) <= after[0].due_s
    assert cell.window_start_s == bursts[1][0].due_s
    assert cell.window_end_s == max(record.done_s or 0.0 for record in records)
    assert (without_machine(cell), cell.requests, cell.clock) == ((), 9, "wall")


def test_a_closed_loop_runs_every_stream_to_its_end() -> None:
    records, cell = run(GOOD, CLOSED)
    assert len(records) == cell.requests == 15
    assert sum(record.warmup for record in records) == 3
    for stream in range(3):
        own = [record for record in records if f"/s{stream}/" in record.request]
        assert [record.request for record in own] == [f"off/c3/r1/s{stream}/{n}" for n in range(5)]
        for before, after in pairwise(own):
            assert (before.done_s or 0.0) <= after.due_s
    first = [record.due_s for record in records if record.request.endswith("/1")]
    last = [record.done_s or 0.0 for record in records if record.request.endswith("/4")]
    assert (cell.window_start_s, cell.window_end_s) == (max(first), min(last))


def test_duration_ends_a_closed_loop() -> None:
    ticks = count()
    records: list[RequestRecord] = []

    async def inside() -> CellRecord:
        async with serving(GOOD) as endpoint:
            load = replace(CLOSED, requests_per_stream=None, warmup_requests=0, duration_s=1.0)
            return await drive_cell(
                endpoint,
                KEY,
                load,
                MIX.cell(KEY),
                on_record=records.append,
                clock=lambda: next(ticks) / 100,  # a second has passed after a hundred readings
            )

    asyncio.run(inside())
    assert 3 <= len(records) < 100


def test_arms_are_sent_the_same_requests() -> None:
    bodies: dict[str, list[str]] = {}

    def noting(arm: str) -> Answer:
        async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
            bodies.setdefault(arm, []).append(repr(sorted(asked.body.items(), key=str)))
            writer.write(whole(event("a", 1)))

        return answer

    async def inside(arm: str) -> None:
        async with serving(noting(arm)) as endpoint:
            await drive(endpoint, CLOSED, CellKey(arm, 3, 1))

    for arm in ("off", "fixed"):
        asyncio.run(inside(arm))
    assert sorted(bodies["off"]) == sorted(bodies["fixed"])
    assert len(set(bodies["off"])) == 15


def test_connections_are_opened_once_and_reused() -> None:
    ports: set[int] = set()

    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        ports.add(writer.get_extra_info("peername")[1])
        writer.write(whole(event("a", 1)))

    run(answer, CLOSED)
    assert len(ports) <= 3


def test_twenty_percent_refusals_are_counted_and_are_no_successes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed, "PAUSE_S", 0.0)
    number = count()

    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        refuse = next(number) % 5 == 0
        writer.write(response(429, b"") if refuse else whole(event("a", 1)))

    records, cell = run(answer, CLOSED)
    outcomes = [record.outcome for record in records]
    assert (outcomes.count(Outcome.REFUSED), outcomes.count(Outcome.DONE)) == (3, 12)
    assert without_machine(cell) == ()


def test_a_cell_without_a_success_is_invalid_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed, "PAUSE_S", 0.0)
    records, cell = run(says(response(500, b"boom")), CLOSED)
    assert {record.outcome for record in records} == {Outcome.FAILED}
    assert without_machine(cell)[0] == "none of 15 requests succeeded; the first: failed: HTTP 500: boom"


def metrics(*values: int) -> Callable[[], str]:
    """/metrics whose drafts go through these values, and whose accepted tokens are twice as many."""
    left = iter(values)
    name = "vllm:spec_decode_num_"

    def text() -> str:
        drafts = next(left)
        lines = {"drafts": drafts, "draft_tokens": 3 * drafts, "accepted_tokens": 2 * drafts}
        return "".join(f"{name}{what}_total {n}\n" for what, n in lines.items())

    return text


def test_counters_of_the_engine_over_the_cell() -> None:
    _, cell = run(GOOD, BURST, {"/metrics": metrics(100, 130)})
    assert (cell.drafts, cell.draft_tokens, cell.accepted_tokens) == (30, 90, 60)
    assert cell.accepted_by_position is None


def test_a_restart_makes_the_cell_invalid() -> None:
    _, cell = run(GOOD, BURST, {"/metrics": metrics(100, 7)})
    assert without_machine(cell) == ("engine restarted during the cell: drafts fell from 100 to 7",)
    assert cell.drafts is None


def test_a_governor_that_failed_in_the_cell_makes_it_invalid() -> None:
    scrapes = iter((2, 5))
    _, cell = run(GOOD, BURST, {"/metrics": lambda: f"depthgate:governor_errors_total {next(scrapes)}\n"})
    assert any("policy not applied: 3 calls of the governor failed" in fault for fault in cell.invalid)


def test_no_metrics_is_not_available() -> None:
    _, cell = run(GOOD, BURST)
    assert (cell.drafts, cell.draft_tokens, cell.lag_s) == (None, None, None)


def test_cancelling_a_cell_keeps_a_record_of_every_request() -> None:
    records: list[RequestRecord] = []

    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        await asyncio.sleep(30)

    async def inside() -> None:
        async with serving(answer) as endpoint:
            task = asyncio.create_task(
                drive_cell(endpoint, KEY, CLOSED, MIX.cell(KEY), on_record=records.append)
            )
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(inside())
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 3
    assert {record.why for record in records} == {"cancelled before any content"}


def test_a_full_disk_stops_the_cell_with_its_own_error() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")

    async def inside() -> None:
        async with serving(GOOD) as endpoint:
            with Journal(Path("/dev/full")) as journal:
                await drive_cell(endpoint, KEY, CLOSED, MIX.cell(KEY), on_record=journal.append)

    with pytest.raises(JournalError, match="No space left on device"):
        asyncio.run(inside())


def test_progress_is_told_once_a_request() -> None:
    told: list[None] = []

    def tell() -> None:
        told.append(None)

    async def inside() -> None:
        async with serving(GOOD) as endpoint:
            prompts = MIX.cell(KEY)
            await drive_cell(endpoint, KEY, BURST, prompts, on_record=lambda _: None, on_progress=tell)

    asyncio.run(inside())
    assert len(told) == 9


def lag(late_s: float, max_s: float) -> EngineLag:
    return EngineLag(steps=100, late_s=late_s, modelled_s=1.0, max_s=max_s, within={})


def test_an_embedded_engine_that_fell_behind_is_no_slow_engine() -> None:
    assert list(engine_faults(None, 1.0)) == []
    assert list(engine_faults(lag(0.5, 0.01), 1.0)) == []  # 5 ms late in steps of 10 ms: half a step
    (behind,) = engine_faults(lag(0.6, 0.01), 1.0)
    assert behind.startswith(
        "the embedded engine fell behind its model: steps of 10.00 ms ended 6.00 ms late"
    )
    (stalled,) = engine_faults(lag(0.1, 0.2), 1.0)
    assert stalled == "the embedded engine stalled for 0.20 s of 1.00 s; is the machine shared?"


def test_lateness_that_moves_no_throughput_is_said() -> None:
    assert list(lateness_notes(None)) == list(lateness_notes(lag(0.1, 0.01))) == []
    (late,) = lateness_notes(lag(0.21, 0.01))
    assert late == "tokens left the embedded engine late by 21% of a step on average: it is in the ITL tails"


def test_notes() -> None:
    assert list(queue_notes(32, 16)) == ["16 of 32 streams queue: max_num_seqs is 16"]
    assert list(queue_notes(16, 16)) == list(queue_notes(16, None)) == []
    assert list(odd_counters(EngineCounters(10, 30, 15, (8, 5, 2)))) == []
    (odd,) = odd_counters(EngineCounters(10, 30, 15, (8, 5, 3)))
    assert odd == "the engine's counters disagree: acceptance length 2.500, by position 2.600"


@pytest.mark.parametrize("counters", [EngineCounters(10, 30, 31), EngineCounters(10, 30, 15, (11, 4))])
def test_more_accepted_than_drafted_is_no_count(counters: EngineCounters) -> None:
    assert not counters.possible
    assert "cannot be" in next(iter(odd_counters(counters)))
    assert EngineCounters(10, 30, 30, (10, 10, 10)).possible
    assert EngineCounters(None, None, 31).possible
