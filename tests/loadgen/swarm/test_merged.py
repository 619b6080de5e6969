"""What a cell says of its workers: saturated, stopped, lost, on another clock; and its window."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from loadgen.lag import ADVICE, client_saturated
from loadgen.records import Outcome, RequestRecord
from loadgen.swarm.cell import Merged
from suites.model import LoadSpec, TrafficClass
from tests.loadgen.swarm.test_merge import RECORD

CLOSED = LoadSpec((2,), requests_per_stream=2)
BURST = replace(CLOSED, mode="burst")
CHAT = TrafficClass("chat", max_tokens=4, ignore_eos=True)


def record(stream: int, number: int, due_s: float, done_s: float) -> RequestRecord:
    """A request of one chunk, of four tokens."""
    return replace(
        RECORD,
        request=f"a/c2/r0/s{stream}/{number}",
        due_s=due_s,
        sent_s=due_s,
        first_byte_s=done_s,
        first_token_s=done_s,
        done_s=done_s,
        chunk_times_s=(done_s,),
        chunk_tokens=(4,),
    )


def batch(worker: str, *records: RequestRecord, offset_s: float = 0.0, late_s: Any = ()) -> dict[str, Any]:
    lines = [json.dumps(asdict(each)) for each in records]
    return {"worker": worker, "offset_s": offset_s, "lines": lines, "late_s": list(late_s)}


def said(worker: str, streams: list[int], ends: list[tuple[float, float]], **more: Any) -> dict[str, Any]:
    """A worker's part as the master reports it."""
    found = [
        {"stream": stream, "begun_s": begun_s, "ended_s": ended_s}
        for stream, (begun_s, ended_s) in zip(streams, ends, strict=False)
    ]
    empty = {"faults": [], "warnings": [], "notes": [], "cpu_s": 0.1, "wall_s": 2.0, "lost_s": None}
    clock = {"offset_s": 0.0, "error_s": 0.0007, "moved_s": 0.0}
    return {"worker": worker, "streams": streams, "ends": found, **empty, **clock, **more}


def merged(*messages: dict[str, Any], workers: list[dict[str, Any]]) -> tuple[Merged, list[RequestRecord]]:
    kept: list[RequestRecord] = []
    made = Merged([CHAT], kept.append, lambda: None)
    for message in messages:
        made.batch(message)
    made.ended({"start_s": 100.0, "workers": workers})
    return made, kept


TWO = [said("worker 0 (x)", [0], [(100.0, 104.0)]), said("worker 1 (y)", [1], [(100.5, 103.0)])]


def test_the_window_is_that_of_all_streams() -> None:
    made, _ = merged(workers=TWO)
    closed, burst = made.driven(CLOSED, 2).window, made.driven(BURST, 2).window
    assert (closed.start_s, closed.end_s, closed.fault) == (100.5, 103.0, "")
    assert (burst.start_s, burst.end_s, burst.fault) == (100.0, 104.0, "")


def test_sound_workers_are_no_fault_and_one_note() -> None:
    made, _ = merged(workers=TWO)
    assert list(made.faults(2.0)) == []
    assert made.driven(CLOSED, 2).notes == ("2 locust workers by this machine's clock, within 1 ms",)


def test_records_come_in_our_clock_and_are_counted() -> None:
    made, kept = merged(
        batch("worker 0 (x)", record(0, 0, 1100.0, 1101.0), offset_s=1000.0, late_s=[0.001, 0.004]),
        batch("worker 1 (y)", replace(record(1, 0, 100.0, 101.0), outcome=Outcome.REFUSED, why="HTTP 503")),
        {"worker": "worker 1 (y)", "offset_s": 0.0, "lines": ["{"], "late_s": [0.002]},
        workers=TWO,
    )
    assert [each.due_s for each in kept] == [100.0, 100.0]
    assert made.outcomes == {Outcome.DONE: 1, Outcome.REFUSED: 1}
    assert made.first_failure == "refused: HTTP 503"
    assert made.worst_s == 0.004
    assert made.driven(CLOSED, 2).notes[-1] == "worker 1 (y) shipped 1 record that cannot be read"


@pytest.mark.parametrize(
    ("part", "late_s", "words"),
    [
        ({"cpu_s": 1.96}, [], "it used 98% of a core"),
        ({}, [0.03] * 20, "its loop woke 30 ms late at p95"),
        ({"warnings": ["locust warned of its CPU use, 97 % of a core"]}, [], "97 % of a core"),
    ],
)
def test_a_saturated_worker_spoils_the_cell_with_advice(
    part: dict[str, Any], late_s: list[float], words: str
) -> None:
    workers = [TWO[0], {**TWO[1], **part}]
    made, _ = merged(batch("worker 1 (y)", late_s=late_s), workers=workers)
    (fault,) = made.faults(2.0)
    assert words in fault
    assert ADVICE in fault
    assert fault.endswith("(worker 1 (y))")
    assert client_saturated(fault)


def test_late_sends_spoil_the_cell() -> None:
    late = replace(record(0, 0, 100.0, 101.0), sent_s=100.08)
    made, _ = merged(batch("worker 0 (x)", late), workers=TWO)
    (fault,) = made.faults(2.0)
    assert "requests left 80 ms after they were due at p95" in fault


def test_a_lost_worker_is_stated_with_its_streams_and_what_is_kept() -> None:
    lost = said("worker 1 (y)", [1], [], lost_s=107.5)
    shipped = batch("worker 1 (y)", record(1, 0, 100.0, 101.0), record(1, 1, 101.0, 102.5))
    made, kept = merged(shipped, workers=[TWO[0], lost])
    (fault,) = made.faults(2.0)
    assert fault == (
        "worker 1 (y) with stream 1 was lost, which was noticed 7.5 s into the cell: 2 records that it had "
        "shipped are kept, later ones are missing; restart it and run again"
    )
    assert len(kept) == 2
    window = made.driven(CLOSED, 2).window
    assert (window.start_s, window.end_s) == (100.0, 102.5)
    assert made.driven(CLOSED, 2).notes == ("1 locust worker by this machine's clock, within 1 ms",)


def test_another_clock_is_stated_with_its_error() -> None:
    other = {**TWO[1], "offset_s": -12.5, "error_s": 0.0003, "moved_s": 0.00004}
    made, _ = merged(workers=[TWO[0], other])
    assert made.driven(CLOSED, 2).notes[1] == (
        "locust worker 1 (y): its clock is ours -12.500000 s +- 0.30 ms (half a round trip, and drift), "
        "taken off; moved by +0.04 ms over the cell"
    )


def test_answers_of_another_length_than_asked_are_said() -> None:
    short = replace(record(0, 0, 100.0, 101.0), output_tokens=3)
    made, _ = merged(batch("worker 0 (x)", short), workers=TWO)
    assert "shorter than was asked" in next(iter(made.lengths.notes()))
