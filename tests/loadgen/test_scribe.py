"""The scribe: parsing waits while the loop is busy, never for ever, and nothing is lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from loadgen import scribe as module
from loadgen.exchange import Ask, Exchange
from loadgen.reads import Reads
from loadgen.records import CellKey, Outcome, RequestRecord
from loadgen.scribe import Scribe
from loadgen.verdict import End, Ending
from tests.loadgen.servers import event, whole

ANSWER = whole(event("a", 1))


def exchange(due_s: float = 0.0) -> Exchange:
    reads = Reads()
    reads.asked_s = due_s + 0.25
    reads.keep(1.0, ANSWER)
    return Exchange(due_s, due_s + 0.5, 200, reads, Ending(End.EOF), 1.0)


def ask(number: int) -> Ask:
    return Ask(f"r{number}", CellKey("a", 1, 0), "chat", 8)


def test_records_come_in_order_while_the_loop_is_idle() -> None:
    records: list[RequestRecord] = []

    async def load() -> int:
        scribe = Scribe(records.append, time.monotonic)
        async with scribe.writing():
            for number in range(5):
                scribe.put(ask(number), exchange())
            for _ in range(20_000):
                await asyncio.sleep(0.001)
                if len(records) == 5:
                    break
            came = len(records)
        assert list(scribe.send_delays_s) == [0.25] * 5
        return came

    assert asyncio.run(load()) == 5
    assert [record.request for record in records] == [f"r{number}" for number in range(5)]


def test_a_busy_loop_is_left_alone_until_the_load_ends() -> None:
    records: list[RequestRecord] = []

    async def load() -> int:
        scribe = Scribe(records.append, time.monotonic)
        async with scribe.writing():
            scribe.put(ask(0), exchange())
            for _ in range(20):
                time.sleep(0.002)  # noqa: ASYNC251 (others' work in every turn)
                await asyncio.sleep(0)
            return len(records)

    assert asyncio.run(load()) == 0
    assert [record.outcome for record in records] == [Outcome.DONE]


@pytest.mark.parametrize(("exchanges", "size"), [(2, 1 << 30), (100, 2 * len(ANSWER))])
def test_a_backlog_is_bounded_by_number_and_by_bytes(
    exchanges: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKLOG", exchanges)
    monkeypatch.setattr(module, "BACKLOG_BYTES", size)
    records: list[RequestRecord] = []
    scribe = Scribe(records.append, time.monotonic)
    for number in range(7):
        scribe.put(ask(number), exchange())
    assert len(records) == 5


def test_a_backlog_is_bounded_by_age() -> None:
    """What `kill -9` may lose: at a busy moment no record waits for longer than BACKLOG_S."""
    now_s = 0.0
    records: list[RequestRecord] = []
    scribe = Scribe(records.append, lambda: now_s)
    for number in range(21):
        now_s = number / 10
        scribe.put(ask(number), exchange())
        waits = number - len(records)
        assert waits / 10 <= module.BACKLOG_S
    assert len(records) == 12


def test_a_busy_loop_is_interrupted_for_what_is_late() -> None:
    now_s = 0.0
    records: list[RequestRecord] = []

    async def load() -> list[int]:
        nonlocal now_s
        scribe = Scribe(records.append, lambda: now_s)
        counts = []
        async with scribe.writing():
            scribe.put(ask(0), exchange())
            for now_s in (0.0, 0.4, 0.9):
                for _ in range(5):
                    now_s += 0.001  # others' work in every turn
                    await asyncio.sleep(0)
                    time.sleep(0.003)  # noqa: ASYNC251
                counts.append(len(records))
        return counts

    assert asyncio.run(load()) == [0, 0, 1]
