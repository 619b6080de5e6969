"""Every fault inside a whole cell: no record is lost, each has its outcome, and the others do not notice.

docs/faults.md lists all faults with their tests; those of one request alone are in test_client.py.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from loadgen import closed, paced
from loadgen.cell import drive_cell
from loadgen.journal import Journal, JournalError, read_requests
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord, TokenSource
from loadgen.traffic import TrafficMix
from suites.model import LoadSpec, TrafficClass
from tests.loadgen.servers import (
    DONE,
    STREAM,
    Answer,
    Asked,
    chunk,
    event,
    reset,
    response,
    says,
    serving,
    whole,
)

pytestmark = pytest.mark.http
KEY = CellKey("off", 3, 0)
CLOSED = LoadSpec((3,), requests_per_stream=3, timeout_s=2.0)
LOADS = {
    "workers": replace(CLOSED, workers=2),
    "burst": LoadSpec((3,), mode="burst", requests_per_stream=3, timeout_s=2.0),
    "open": LoadSpec(
        (3,), mode="open", rate_per_s=20.0, arrivals="constant", requests_per_stream=3, timeout_s=2.0
    ),
}
MIX = TrafficMix([TrafficClass("chat", max_tokens=3)], 0)
GOOD = says(whole(event("a", 1), event("b c", 3)))
REQUESTS, BAD = 9, 3  # requests 4, 5 and 6 of each cell meet the fault

Kept = tuple[list[RequestRecord], CellRecord]


@pytest.fixture(autouse=True)
def _no_pause_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed, "PAUSE_S", 0.0)
    monkeypatch.setattr(paced, "PAUSE_S", 0.0)


def run(answer: Answer, load: LoadSpec = CLOSED) -> Kept:
    records: list[RequestRecord] = []

    async def inside() -> CellRecord:
        async with serving(answer) as endpoint:
            return await drive_cell(endpoint, KEY, load, MIX.cell(KEY), on_record=records.append)

    cell = asyncio.run(inside())
    return records, cell


def now_and_then(bad: Answer) -> Answer:
    number = count()

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        good = not BAD <= next(number) < 2 * BAD
        await (GOOD if good else bad)(writer, asked)

    return answer


async def _resets(writer: asyncio.StreamWriter, _: Asked) -> None:
    writer.write(STREAM + chunk(event("a", 1)))
    await writer.drain()
    await asyncio.sleep(0.05)  # the client must have read it: a reset throws unread bytes away
    reset(writer)


async def _hangs_before_headers(writer: asyncio.StreamWriter, _: Asked) -> None:
    await asyncio.sleep(30)


async def _hangs_in_mid_stream(writer: asyncio.StreamWriter, _: Asked) -> None:
    writer.write(STREAM + chunk(event("a", 1)))
    await asyncio.sleep(30)


async def _dribbles_its_head(writer: asyncio.StreamWriter, _: Asked) -> None:
    """Slowloris: always a byte more, never a head."""
    for byte in STREAM.replace(b"\r\n\r\n", b"\r\nX-Slow: " + b"z" * 4000):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.01)


async def _dribbles_its_body(writer: asyncio.StreamWriter, _: Asked) -> None:
    writer.write(STREAM + chunk(event("a", 1)))
    while True:
        writer.write(chunk(b":"))
        await writer.drain()
        await asyncio.sleep(0.01)


def _cut(data: bytes) -> Answer:
    return says(data, hang_up=True)


@dataclass(frozen=True)
class Fault:
    answer: Answer
    outcome: Outcome
    why: str


ERROR = b'data: {"error": {"message": "out of blocks"}}\n\n'
TOO_MANY = response(429, b'{"error": {"message": "slow down"}}', Retry_After="7")
FAULTS = {
    "reset in mid-stream": Fault(_resets, Outcome.FAILED, "connection reset in mid-stream after 1 content"),
    "hang before headers": Fault(_hangs_before_headers, Outcome.TIMED_OUT, "no end within 2 s before any"),
    "hang in mid-stream": Fault(_hangs_in_mid_stream, Outcome.TIMED_OUT, "no end within 2 s after 1 content"),
    "slowloris head": Fault(_dribbles_its_head, Outcome.TIMED_OUT, "no end within 2 s before any content"),
    "slowloris body": Fault(_dribbles_its_body, Outcome.TIMED_OUT, "no end within 2 s after 1 content"),
    "429": Fault(says(TOO_MANY), Outcome.REFUSED, "HTTP 429 (Retry-After: 7): slow down"),
    "503": Fault(says(response(503, b"")), Outcome.REFUSED, "HTTP 503: empty body"),
    "500": Fault(says(response(500, b"boom")), Outcome.FAILED, "HTTP 500: boom"),
    "error event": Fault(says(whole(event(), ERROR)), Outcome.FAILED, "error event in a 200 stream: out of"),
    "no [DONE]": Fault(
        says(STREAM + chunk(event()) + chunk(b"")), Outcome.TRUNCATED, "without [DONE], after 1"
    ),
    "cut in mid-body": Fault(_cut(STREAM + chunk(event())), Outcome.TRUNCATED, "without [DONE], after 1"),
    "cut in mid-chunk": Fault(_cut(STREAM + chunk(event())[:20]), Outcome.TRUNCATED, "before any content"),
    "cut in mid-head": Fault(_cut(STREAM[:30]), Outcome.FAILED, ""),
    "closed unanswered": Fault(_cut(b""), Outcome.FAILED, "closed the connection without an answer"),
    "[DONE] alone": Fault(says(whole()), Outcome.FAILED, "[DONE] with no event before it"),
    "invalid JSON": Fault(
        says(whole(event(), b"data: {nope\n\n", event())), Outcome.FAILED, "event 2 is not"
    ),
    "not HTTP": Fault(_cut(b"SSH-2.0-OpenSSH_9\r\n\r\n"), Outcome.FAILED, "not HTTP"),
    "no stream": Fault(says(response(200, b"{}", Content_Type="a/b")), Outcome.FAILED, "no event stream"),
}


def check(records: list[RequestRecord], fault: Fault) -> None:
    assert Counter(record.outcome for record in records) == {Outcome.DONE: REQUESTS - BAD, fault.outcome: BAD}
    assert len({record.request for record in records}) == REQUESTS
    for record in records:
        if record.outcome is Outcome.DONE:
            assert (record.output_tokens, record.chunk_tokens, record.why) == (3, (1, 2), None)
        else:
            assert fault.why in (record.why or "")
            assert record.done_s is None


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_every_fault_is_a_record_and_nobody_else_notices(fault: Fault) -> None:
    records, cell = run(now_and_then(fault.answer))
    check(records, fault)
    assert cell.requests == REQUESTS


@pytest.mark.parametrize("name", ["reset in mid-stream", "hang before headers", "429", "cut in mid-body"])
@pytest.mark.parametrize("load", LOADS)
def test_so_it_is_under_other_loads(name: str, load: str) -> None:
    records, _ = run(now_and_then(FAULTS[name].answer), LOADS[load])
    check(records, FAULTS[name])


def test_a_server_that_goes_away_for_good_fails_the_rest() -> None:
    """Its listener closes with the fifth request: what is sent after that finds nobody."""
    records: list[RequestRecord] = []

    async def inside() -> CellRecord:
        number = count(1)
        gone = asyncio.Event()
        load = replace(CLOSED, requests_per_stream=5)

        async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
            if next(number) >= 5:
                gone.set()
            await (_cut(b"") if gone.is_set() else GOOD)(writer, asked)

        async with serving(answer) as endpoint:
            driving = asyncio.create_task(
                drive_cell(endpoint, KEY, load, MIX.cell(KEY), on_record=records.append)
            )
            await gone.wait()
        return await driving

    cell = asyncio.run(inside())
    assert cell.requests == len(records) == 15
    outcomes = Counter(record.outcome for record in records)
    assert outcomes == {Outcome.DONE: 4, Outcome.FAILED: 11}
    assert sum("cannot connect to 127.0.0.1" in (record.why or "") for record in records) >= 8


USAGES: dict[str, tuple[bytes, TokenSource, int | None, str | None]] = {
    "null": (event("a", None), TokenSource.UNKNOWN, None, None),
    "missing": (b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n', TokenSource.UNKNOWN, None, None),
    "a text": (event("a", None).replace(b"null", b'"3"'), TokenSource.UNKNOWN, None, None),
    "no number": (event("a", 3).replace(b": 3}", b': "3"}'), TokenSource.UNKNOWN, None, None),
    "contradicting": (
        event("a", 1) + event("b", 3) + b'data: {"choices": [], "usage": {"completion_tokens": 2}}\n\n',
        TokenSource.CONTINUOUS_USAGE,
        2,
        "usage says 2 tokens, the chunks carried 3",
    ),
    "falling": (event("a", 3) + event("b", 1), TokenSource.USAGE, 1, None),
    "without text": (
        b'data: {"choices": [], "usage": {"completion_tokens": 2}}\n\n',
        TokenSource.USAGE,
        2,
        "usage says 2 tokens, no chunk carried any text",
    ),
}


@pytest.mark.parametrize("usage", USAGES.values(), ids=USAGES.keys())
def test_a_usage_that_says_nothing_or_too_much(
    usage: tuple[bytes, TokenSource, int | None, str | None],
) -> None:
    """The answer is whole, so it is done; what is unknown stays unknown, what contradicts itself is said."""
    body, source, tokens, why = usage
    records, _ = run(says(whole(body)))
    assert len(records) == REQUESTS
    for record in records:
        assert (record.outcome, record.tokens_are, record.output_tokens) == (Outcome.DONE, source, tokens)
        assert record.why == why


def test_ids_that_repeat_confuse_nobody() -> None:
    """A server that gives every answer, and every chunk, the same id."""
    number = count(1)

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        tokens = 1 + next(number) % 3
        writer.write(whole(event("a", tokens, id="chatcmpl-1"), event("b", tokens + 1, id="chatcmpl-1")))

    records, _ = run(answer)
    assert len({record.request for record in records}) == REQUESTS
    assert Counter(record.output_tokens for record in records) == {2: 3, 3: 3, 4: 3}


@pytest.mark.parametrize("step_s", [-3600.0, 1.0, 3600.0])
def test_a_wall_clock_that_is_set_changes_no_time(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    """Set in the middle of the answers; every stamp stays where a clock that nobody sets would have it."""
    true_time = time.time
    shift_s = 0.0
    monkeypatch.setattr(time, "time", lambda: true_time() + shift_s)

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        nonlocal shift_s
        writer.write(STREAM + chunk(event("a", 1)))
        await writer.drain()
        shift_s += step_s
        await asyncio.sleep(0.01)
        writer.write(chunk(event("b", 3)) + chunk(DONE) + chunk(b""))

    before_s = time.perf_counter()
    records, cell = run(answer)
    after_s = time.perf_counter()
    assert shift_s == REQUESTS * step_s
    for record in records:
        stamps = [record.due_s, record.sent_s, record.first_byte_s, *record.chunk_times_s, record.done_s]
        known = [stamp for stamp in stamps if stamp is not None]
        assert len(known) == 6
        assert [before_s, *known, after_s] == sorted([before_s, *known, after_s])
        assert record.chunk_times_s[1] - record.chunk_times_s[0] >= 0.005
    assert before_s <= cell.window_start_s <= cell.window_end_s <= after_s


def test_a_disk_that_fills_up_ends_the_cell_and_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fifth record fits by half: four can be read, the error names the file and the mend."""
    write, lines = os.write, count(1)
    full = False

    def writing(file: int, data: bytes) -> int:
        nonlocal full
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if data.startswith(b'{"request"') and next(lines) == 5:
            full = True
            data = data[: len(data) // 2]
        return write(file, data)

    monkeypatch.setattr(os, "write", writing)
    path = tmp_path / "r.jsonl"

    async def inside(journal: Journal) -> None:
        async with serving(GOOD) as endpoint:
            await drive_cell(endpoint, KEY, CLOSED, MIX.cell(KEY), on_record=journal.append)

    with (
        Journal(path) as journal,
        pytest.raises(JournalError, match=r"cannot write .*r\.jsonl: No space left"),
    ):
        asyncio.run(inside(journal))
    records, partial = read_requests(path)
    assert (len(records), partial) == (4, "r.jsonl: its last line is cut off")
