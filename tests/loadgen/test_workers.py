"""Worker processes of one machine: the same requests, one window, and a worker that dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from engines.contract import Endpoint
from loadgen import workers
from loadgen.asked_lengths import AskedLengths
from loadgen.cell import drive_cell
from loadgen.client import ClientSettings
from loadgen.lag import ADVICE, ReadLag
from loadgen.load_command import LoadSettings, SharedPrompts, run_load
from loadgen.paced import Driven
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.share import Share
from loadgen.steady import Window
from loadgen.traffic import TrafficMix
from loadgen.worker_count import workers_of
from loadgen.worker_process import Account, Job
from loadgen.workers import Crew
from suites.model import Burst, Lengths, LoadSpec, Phase, TrafficClass
from tests.loadgen.servers import Answer, Asked, event, says, serving, whole

KEY = CellKey("off", 5, 0)
LOAD = LoadSpec((5,), requests_per_stream=3, warmup_requests=1, timeout_s=20)
MIX = TrafficMix([TrafficClass("gsm8k"), TrafficClass("chat")], 0)
GOOD = says(whole(event("a", 1), event("b", 3)))

Kept = tuple[list[RequestRecord], CellRecord]


def drive(answer: Answer, load: LoadSpec, seen: list[Any] | None = None) -> Kept:
    records: list[RequestRecord] = []

    async def noting(writer: asyncio.StreamWriter, asked: Asked) -> None:
        if seen is not None:
            seen.append(asked.body["messages"][0]["content"])
        await answer(writer, asked)

    async def inside() -> CellRecord:
        async with serving(noting) as endpoint:
            return await drive_cell(endpoint, KEY, load, MIX.cell(KEY), on_record=records.append)

    return records, asyncio.run(inside())


def test_a_share_is_every_nth_stream_and_all_shares_are_all_streams() -> None:
    shares = [list(Share(index, 3).streams(8)) for index in range(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_how_many_workers() -> None:
    closed = LoadSpec((1,), requests_per_stream=1)
    wanted = [workers_of(closed, streams, 180, cores=8) for streams in (1, 512, 513, 100_000)]
    assert wanted == [1, 1, 2, 7]
    assert workers_of(closed, 4096, 180, cores=1) == 1
    assert workers_of(replace(closed, workers=4), 3, 180, cores=1) == 3
    assert workers_of(replace(closed, phases=(Phase(duration_s=1.0),)), 4096, 180, cores=16) == 8
    assert workers_of(replace(closed, bursts=(Burst(1.0, 600),)), 4096, 180, cores=16) == 10
    assert workers_of(LoadSpec((1,), mode="burst", requests_per_stream=1), 4096, 180, cores=16) == 8


def test_how_many_workers_an_open_loop_has(tmp_path: Path) -> None:
    """One for 51,200 tokens a second that are asked for, a request counted as 20 more of them."""
    load = LoadSpec((1,), "open", duration_s=9.0, rate_per_s=256.0, arrivals="poisson")
    assert [workers_of(load, c, 180, cores=64) for c in (1, 2, 10)] == [1, 2, 10]
    assert workers_of(load, 10, 20, cores=64) == 2
    assert workers_of(load, 10, 180, cores=4) == 3
    assert workers_of(load, 1000, 180, cores=1) == 1
    assert workers_of(replace(load, max_in_flight=600), 10, 180, cores=64) == 2
    assert workers_of(replace(load, workers=5), 1, 1, cores=1) == 5
    assert workers_of(replace(load, workers=5, max_in_flight=3), 1, 1, cores=1) == 3
    assert workers_of(replace(load, bursts=(Burst(1.0, 5 * 512),)), 1, 180, cores=64) == 6
    few = LoadSpec((1,), "open", requests_per_stream=10, rate_per_s=20.0, arrivals="poisson", workers=200)
    assert [workers_of(few, c, 1, cores=2) for c in (1, 3)] == [10, 30]
    assert workers_of(replace(few, bursts=(Burst(1.0, 4, times=3, every_s=1.0),)), 1, 1, cores=2) == 22
    phases = (Phase(duration_s=1.0), Phase(duration_s=1.0, rate_per_s=512.0))
    assert workers_of(replace(load, duration_s=None, phases=phases), 1, 180, cores=64) == 2
    trace = tmp_path / "due.txt"
    trace.write_text("".join(f"{at / 512}\n" for at in range(5121)))
    traced = LoadSpec((1,), "open", arrivals="trace", trace=str(trace))
    assert workers_of(traced, 1, 180, cores=64) == 3
    assert workers_of(replace(traced, workers=9000), 1, 180, cores=64) == 5121
    assert workers_of(replace(traced, workers=200, requests_per_stream=7), 1, 180, cores=64) == 7


def crew_of(late: dict[int, list[float]], of: int) -> Crew:
    """A crew whose workers have ended; worker `number` (from 0) woke so late."""

    def ignore(*_: object) -> None:
        return None

    endpoint = Endpoint(base_url="http://x", model="m", engine="e", is_model=False)
    job = Job(endpoint, KEY, LOAD, MIX.cell(KEY), ClientSettings.of(LOAD), Share(0, of), False)
    crew = Crew(job, ignore, ignore, None)
    driven = Driven(Window(0.0, 10.0, ""))
    for number in range(of):
        late_s = late.get(number, [])
        account = Account(driven, Counter(), None, AskedLengths(), late_s, [], 0.0, 10.0, ReadLag())
        crew._workers.append(workers.Worker(number, cast(asyncio.subprocess.Process, None), account))
    return crew


def test_workers_that_did_not_keep_up_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "usable_cores", lambda: 4)
    saturated = "the load generator was saturated: its loop woke 30 ms late at p95; "
    late, stalled = [0.03] * 100, [0.0] * 99 + [3.0]
    assert list(crew_of({}, 3).faults(10.0)) == []
    assert list(crew_of({1: late}, 3).faults(10.0)) == [f"{saturated}{ADVICE} (worker 2 of 3)"]
    assert list(crew_of({1: late, 2: [0.05] * 100, 3: stalled}, 4).faults(10.0)) == [
        f"{saturated}{ADVICE} (2 of 4 workers: the first, worker 2)",
        "the load generator stalled for 3.00 s of 10.00 s; is the machine shared? (worker 4 of 4)",
    ]


@pytest.mark.parametrize(("cores", "said"), [(1, "1 core"), (4, "4 cores")])
def test_more_workers_than_cores_are_told_to_be_fewer(
    monkeypatch: pytest.MonkeyPatch, cores: int, said: str
) -> None:
    monkeypatch.setattr(workers, "usable_cores", lambda: cores)
    late = dict.fromkeys(range(1, 5), [0.03] * 100)
    assert list(crew_of(late, 5).faults(10.0)) == [
        "the load generator was saturated: its loop woke 30 ms late at p95; "
        f"5 worker processes share {said}: start fewer (--workers) (4 of 5 workers: the first, worker 2)"
    ]


def test_what_a_request_asks_for_on_average() -> None:
    lengths = Lengths("uniform", min=100, max=300)
    mix = TrafficMix([TrafficClass("gsm8k", max_tokens=50), TrafficClass("chat", 3.0, max_tokens=lengths)], 0)
    assert mix.cell(KEY).mean_tokens == pytest.approx(0.25 * 50 + 0.75 * 200, rel=0.1)


@pytest.mark.http
def test_workers_send_what_one_process_sends_and_their_window_is_one() -> None:
    alone: list[Any] = []
    shared: list[Any] = []
    drive(GOOD, LOAD, alone)
    records, cell = drive(GOOD, replace(LOAD, workers=2), shared)
    assert Counter(alone) == Counter(shared)
    assert sorted(record.request for record in records) == sorted(
        f"off/c5/r0/s{stream}/{turn}" for stream in range(5) for turn in range(4)
    )
    assert cell.requests == 20
    assert "2 worker processes drove the load" in cell.notes
    first = [record.due_s for record in records if record.request.endswith("/1")]
    last = [record.done_s or 0.0 for record in records if record.request.endswith("/3")]
    if not any("no steady state" in fault for fault in cell.invalid):  # a worker that was held up has none
        assert cell.window_start_s == max(first)
        assert cell.window_end_s == pytest.approx(min(last), abs=1e-3)


@pytest.mark.http
def test_a_worker_that_dies_makes_the_cell_invalid_and_leaves_its_records() -> None:
    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        await asyncio.sleep(0.02)
        writer.write(whole(event("a", 1)))

    records: list[RequestRecord] = []

    def keep(record: RequestRecord) -> None:
        records.append(record)
        if len(records) == 20:
            os.kill(children()[0], signal.SIGKILL)

    async def inside() -> CellRecord:
        async with serving(answer) as endpoint:
            load = replace(LOAD, requests_per_stream=30, workers=2)
            return await drive_cell(endpoint, KEY, load, MIX.cell(KEY), on_record=keep)

    cell = asyncio.run(inside())
    (fault,) = [fault for fault in cell.invalid if "died" in fault]
    assert "(SIGKILL)" in fault
    assert "of its records are kept, what it had under way is lost" in fault
    assert 20 <= len(records) < 5 * 31
    assert {record.outcome for record in records} == {Outcome.DONE}


@pytest.mark.http
def test_cancelling_reaches_the_workers_and_their_requests_are_records() -> None:
    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        came.set()
        await asyncio.sleep(30)

    came = asyncio.Event()
    records: list[RequestRecord] = []

    async def inside() -> None:
        async with serving(answer) as endpoint:
            load = replace(LOAD, workers=2)
            cell = drive_cell(endpoint, KEY, load, MIX.cell(KEY), on_record=records.append)
            task = asyncio.create_task(cell)
            await came.wait()
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert children() == []

    asyncio.run(inside())
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 5


@pytest.mark.http
def test_a_worker_that_falls_silent_is_ended_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        await asyncio.sleep(0.02)
        writer.write(whole(event("a", 1)))

    monkeypatch.setattr(workers, "SILENT_S", 3.0)  # of signs of life a second apart
    seen = 0

    def stop(record: RequestRecord) -> None:
        nonlocal seen
        seen += 1
        if seen == 20:
            os.kill(children()[0], signal.SIGSTOP)

    async def inside() -> CellRecord:
        async with serving(answer) as endpoint:
            load = replace(LOAD, requests_per_stream=30, workers=2)
            return await drive_cell(endpoint, KEY, load, MIX.cell(KEY), on_record=stop)

    cell = asyncio.run(inside())
    (fault,) = [fault for fault in cell.invalid if "died" in fault]
    assert "(silent for 3 s, then ended)" in fault
    assert children() == []


@pytest.mark.http
def test_cancelling_does_not_wait_for_a_worker_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        came.set()
        await asyncio.sleep(30)

    came = asyncio.Event()
    monkeypatch.setattr(workers, "LAST_WORDS_S", 0.5)
    records: list[RequestRecord] = []

    async def inside() -> None:
        async with serving(answer) as endpoint:
            load = replace(LOAD, workers=2)
            cell = drive_cell(endpoint, KEY, load, MIX.cell(KEY), on_record=records.append)
            task = asyncio.create_task(cell)
            await came.wait()
            os.kill(children()[0], signal.SIGSTOP)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert children() == []

    asyncio.run(inside())


def test_a_worker_that_cannot_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "START", "raise SystemExit(3)")
    with pytest.raises(workers.WorkerError, match=r"worker \d of 2 did not start; .* or use workers = 1"):
        drive(GOOD, replace(LOAD, workers=2))


@pytest.mark.http
def test_one_queue_of_prompts_is_dealt_out() -> None:
    settings = LoadSettings("http://x", concurrency=4, requests=7, max_tokens=3)
    whole_queue = list(SharedPrompts(settings).stream(0))
    parts = [list(SharedPrompts(settings).share(Share(index, 2)).stream(0)) for index in range(2)]
    assert [len(part) for part in parts] == [4, 3]
    assert sorted(map(repr, parts[0] + parts[1])) == sorted(map(repr, whole_queue))

    async def inside() -> list[RequestRecord]:
        records: list[RequestRecord] = []
        async with serving(GOOD) as endpoint:
            here = replace(settings, url=endpoint.base_url, model="m", workers=2)
            await run_load(here, records.append)
        return records

    assert [record.outcome for record in asyncio.run(inside())] == [Outcome.DONE] * 7


def children() -> list[int]:
    """Worker processes of this one, by /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z" and b"loadgen.worker_process" in command:
            found.append(int(stat.parent.name))
    return sorted(found)
