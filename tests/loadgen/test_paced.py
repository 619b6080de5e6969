"""Open loops, phases and bursts through both drivers: the records, and the same due times in each."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loadgen.cell import drive_cell
from loadgen.lag import client_saturated
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.request import request_body
from loadgen.rules import rules_of
from loadgen.traffic import TrafficMix
from loadgen.virtual import simulate_cell
from suites.model import Arm, Burst, LoadSpec, Phase, TrafficClass
from tests.loadgen.servers import Answer, Asked, event, says, serving, whole

PROFILE = "h200-qwen3-4b-eagle"
GOOD = says(whole(event("a", 1), event("b", 3)))
MIX = TrafficMix([TrafficClass("gsm8k", max_tokens=24), TrafficClass("chat", max_tokens=24)], 0)
Kept = tuple[list[RequestRecord], CellRecord]

OPEN = LoadSpec((4,), "open", duration_s=1.0, rate_per_s=5.0, arrivals="gamma", cv=2.0, timeout_s=5)
STEPS = LoadSpec(
    (4,),
    phases=(
        Phase(1, requests_per_stream=1, warmup=True),
        Phase(4, requests_per_stream=2, weights={"chat": 1.0}),
        Phase(1, requests_per_stream=1),
    ),
    timeout_s=5,
)
BURSTS = LoadSpec((2,), duration_s=0.4, bursts=(Burst(0.2, 3, traffic="gsm8k"),), timeout_s=5)


def virtual(load: LoadSpec, arm: Arm | None = None, **engine: object) -> Kept:
    arm = arm or Arm("off", "off")
    key = CellKey(arm.name, load.concurrency[0], 0)
    records, _, cell = simulate_cell(PROFILE, arm, engine, key, load, MIX.cell(key), 5)
    return records, cell


def served(load: LoadSpec, answer: Answer = GOOD) -> Kept:
    key = CellKey("off", load.concurrency[0], 0)
    records: list[RequestRecord] = []

    async def inside() -> CellRecord:
        async with serving(answer) as endpoint:
            return await drive_cell(endpoint, key, load, MIX.cell(key), on_record=records.append)

    return records, asyncio.run(inside())


def asked(records: list[RequestRecord]) -> list[tuple[str, str, bool]]:
    return sorted((record.request, record.traffic_class, record.warmup) for record in records)


@pytest.mark.parametrize("load", [OPEN, STEPS, BURSTS], ids=["open", "phases", "bursts"])
def test_virtual_cells_are_bit_for_bit_the_same_and_valid(load: LoadSpec) -> None:
    records, cell = virtual(load)
    assert (records, cell) == virtual(load)
    assert {record.outcome for record in records} == {Outcome.DONE}
    assert (cell.invalid, cell.requests) == ((), len(records))
    assert len({record.request for record in records}) == len(records)
    for record in records:
        assert record.due_s <= (record.sent_s or 0) <= (record.first_token_s or 0) <= (record.done_s or 0)


def test_arms_meet_the_same_arrivals() -> None:
    off, fast = virtual(OPEN), virtual(OPEN, Arm("fixed", "fixed", {"depth": 2}))
    due = [
        sorted((r.request.split("/", 1)[1], r.due_s, r.prompt_tokens) for r in run[0]) for run in (off, fast)
    ]
    assert due[0] == due[1]


def test_virtual_latency_counts_from_the_due_time_through_the_backlog() -> None:
    """One at a time: a request that is due while another runs has waited from then on."""
    load = LoadSpec(
        (1,), "open", requests_per_stream=5, rate_per_s=1000.0, arrivals="constant", max_in_flight=1
    )
    records, cell = virtual(load)
    start_s = records[0].due_s
    assert [round(record.due_s - start_s, 6) for record in records] == [0, 0.001, 0.002, 0.003, 0.004]
    for before, after in pairwise(records):
        assert after.sent_s == pytest.approx(before.done_s, abs=1e-9)
        assert (after.first_token_s or 0) > (before.done_s or 0)
    assert cell.notes == (
        "open loop: constant arrivals, 1250 requests/s offered; backlog (due, not answered) 5 at its end, "
        "at most 5 at 0.004 s",
    )


def test_phases_are_in_the_cell_record_and_change_the_mix() -> None:
    records, cell = virtual(STEPS)
    starts = cell.phase_starts_s or ()
    assert len(starts) == 4
    assert (cell.window_start_s, cell.window_end_s) == (starts[1], starts[3])
    middle = [record for record in records if starts[1] - 1e-6 <= record.due_s < starts[2] - 1e-6]
    assert (len(records), len(middle)) == (10, 8)
    assert {record.traffic_class for record in middle} == {"chat"}
    assert [record.warmup for record in sorted(records, key=lambda r: r.due_s)] == [True] + [False] * 9


def test_a_deadline_counts_from_the_due_time() -> None:
    load = LoadSpec(
        (1,),
        "open",
        requests_per_stream=9,
        rate_per_s=1000.0,
        arrivals="constant",
        max_in_flight=1,
        timeout_s=0.5,
    )
    records, _ = virtual(load)
    done = [record.outcome is Outcome.DONE for record in sorted(records, key=lambda r: r.due_s)]
    assert done[0]
    assert not done[-1]
    assert done == sorted(done, reverse=True)


def test_more_than_the_seats_is_said_for_bursts_on_top() -> None:
    _, cell = virtual(BURSTS, max_num_seqs=4)
    assert "1 of 5 streams queues: max_num_seqs is 4" in cell.notes


@pytest.mark.http
@pytest.mark.parametrize("load", [OPEN, STEPS], ids=["open", "phases"])
def test_http_sends_what_virtual_time_sends(load: LoadSpec) -> None:
    over_http, cell = served(load)
    assert asked(over_http) == asked(virtual(load)[0])
    assert {record.outcome for record in over_http} == {Outcome.DONE}
    assert cell.window_end_s > cell.window_start_s
    assert (cell.phase_starts_s is None) == (load.phases is None)


@pytest.mark.http
def test_http_due_times_are_the_rules_and_no_request_leaves_early() -> None:
    records, cell = served(OPEN)
    due = sorted(record.due_s - cell.window_start_s for record in records)
    assert due == pytest.approx([send.due_s for send in rules_of(OPEN, 4, "0/0/4").start()], abs=1e-6)
    assert all((record.sent_s or 0) >= record.due_s for record in records)
    assert cell.notes[0].startswith("open loop: gamma arrivals, ")


@pytest.mark.http
def test_http_bursts_leave_together_on_top_of_the_streams() -> None:
    records, cell = served(BURSTS)
    on_top = [record for record in records if int(record.request.split("/s")[1].split("/")[0]) >= 2]
    assert len(on_top) == 3
    assert {round(record.due_s - cell.window_start_s, 9) for record in on_top} == {0.2}
    assert {record.traffic_class for record in on_top} == {"gsm8k"}


@pytest.mark.http
def test_a_refusing_server_is_not_hammered_in_phases() -> None:
    refused = says(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    records, cell = served(STEPS, refused)
    assert {record.outcome for record in records} == {Outcome.REFUSED}
    assert len(records) == 10
    starts = cell.phase_starts_s or ()
    assert starts[-1] - starts[0] >= 0.4  # four rounds with a pause after each


def test_a_staggered_thinking_loop_waits_between_requests() -> None:
    load = LoadSpec((4,), requests_per_stream=6, think_s=0.5, stagger_s=2.0)
    records, cell = virtual(load)
    start_s = min(record.due_s for record in records)
    for stream in range(4):
        own = sorted((r for r in records if f"/s{stream}/" in r.request), key=lambda r: r.due_s)
        assert own[0].due_s - start_s == pytest.approx(0.5 * stream)
        for before, after in pairwise(own):
            assert after.due_s - (before.done_s or 0) == pytest.approx(0.5)
    assert cell.window_start_s - start_s == pytest.approx(1.5)


@pytest.mark.http
def test_thinking_streams_over_http_pause_too() -> None:
    load = LoadSpec((2,), requests_per_stream=3, think_s=0.05, stagger_s=0.1, timeout_s=5)
    records, _ = served(load)
    for stream in range(2):
        own = sorted((r for r in records if f"/s{stream}/" in r.request), key=lambda r: r.due_s)
        assert all(after.due_s - (before.done_s or 0) >= 0.05 for before, after in pairwise(own))


@pytest.mark.http
def test_cancelling_keeps_what_was_under_way_and_drops_what_was_not_due() -> None:
    """Three due at once and never answered, a fourth due in an hour: three records, and Ctrl-C goes on."""
    load = LoadSpec((3,), duration_s=7200.0, bursts=(Burst(3600.0, 1),))
    key = CellKey("off", 3, 0)
    records: list[RequestRecord] = []

    async def silent(writer: asyncio.StreamWriter, _: Asked) -> None:
        await asyncio.sleep(30)

    async def inside() -> None:
        async with serving(silent) as endpoint:
            task = asyncio.create_task(
                drive_cell(endpoint, key, load, MIX.cell(key), on_record=records.append)
            )
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(inside())
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 3


@pytest.mark.http
def test_a_trace_is_replayed_c_times_as_fast_on_both_clocks(tmp_path: Path) -> None:
    trace = tmp_path / "due.jsonl"
    trace.write_text(
        '{"timestamp": 100.0}\n{"timestamp": 100.2}\n{"timestamp": 100.2}\n{"timestamp": 100.5}\n'
    )
    load = LoadSpec((2,), "open", arrivals="trace", trace=str(trace), timeout_s=5)
    for records, cell in (virtual(load), served(load)):
        due = sorted(record.due_s - cell.window_start_s for record in records)
        assert due == pytest.approx([0.0, 0.1, 0.1, 0.25], abs=1e-6)
        assert cell.window_end_s - cell.window_start_s == pytest.approx(0.25)


@pytest.mark.http
def test_a_rate_that_the_client_cannot_hold_is_the_clients_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request costs the client 10 ms and is due 4 ms after the one before: the last are 0.6 s late."""

    def slowly(*arguments: Any) -> bytes:
        time.sleep(0.01)
        return request_body(*arguments)

    monkeypatch.setattr("loadgen.client.request_body", slowly)
    load = LoadSpec(
        (1,), "open", requests_per_stream=100, rate_per_s=250.0, arrivals="constant", timeout_s=20
    )
    records, cell = served(load)
    assert {record.outcome for record in records} == {Outcome.DONE}
    assert any(client_saturated(fault) and "were due at p95" in fault for fault in cell.invalid)
    assert "--workers" in "".join(cell.invalid)
