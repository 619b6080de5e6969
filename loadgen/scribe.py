"""Turns finished exchanges into records beside the load: parsing waits while streams are busy.

Records come when the loop has time, at the latest when BACKLOG_BYTES of answers wait, one has waited for
BACKLOG_S (what `kill -9` may lose) or the load ends. Until then answers are kept as they came, so that a loop
that is flat out reads and sends, and does nothing else.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from loadgen.asked_lengths import AskedLengths
from loadgen.exchange import Ask, Exchange, record_of
from loadgen.reads import Clock
from loadgen.records import Outcome, RequestRecord

SLICE_S = 0.0005  # of parsing between two looks at the sockets
BUSY_S = 0.0002  # of others' work in one turn of the loop: streams are busy
REST_S = 0.002  # until the next look at a busy loop,
RESTS = 250  # so many times
BACKLOG = 4096  # exchanges that may wait unparsed, and
BACKLOG_BYTES = 1 << 26  # bytes of them, and
BACKLOG_S = 0.8  # that the oldest of them waits; beyond any of these each one is parsed at once


class Scribe:
    """`put` exchanges in; `on_record` gets records, in the order in which the requests ended.

    What `on_record` raises (a full disk) ends the block of `writing` and so the load.
    """

    def __init__(self, on_record: Callable[[RequestRecord], None], clock: Clock) -> None:
        self._on_record = on_record
        self._clock = clock
        self._waiting: deque[tuple[float, Ask, Exchange]] = deque()  # since when
        self._waiting_bytes = 0
        self._more = asyncio.Event()
        self._broken = False
        self.send_delays_s = array("d")  # from due until the client turned to it
        self.outcomes: Counter[Outcome] = Counter()
        self.first_failure: str | None = None
        self.lengths = AskedLengths()

    def put(self, ask: Ask, exchange: Exchange) -> None:
        self._waiting.append((self._clock(), ask, exchange))
        self._waiting_bytes += exchange.reads.raw_bytes
        self._more.set()
        if exchange.reads.asked_s is not None:
            self.send_delays_s.append(exchange.reads.asked_s - exchange.due_s)
        while len(self._waiting) > BACKLOG or self._waiting_bytes > BACKLOG_BYTES or self._is_late():
            self._write_one()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """The load runs in this block. When the block ends, however it ends, every exchange is a record."""
        try:
            async with asyncio.TaskGroup() as group:
                writer = group.create_task(self._write())
                yield
                writer.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        finally:
            while self._waiting and not self._broken:
                self._write_one()

    async def _write(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                await self._pause()
                self._write_some()

    def _is_late(self) -> bool:
        return bool(self._waiting) and self._clock() - self._waiting[0][0] > BACKLOG_S

    async def _pause(self) -> None:
        """Until a turn of the loop leaves time, or long enough: records come while a load runs."""
        for _ in range(RESTS):
            if self._is_late():
                return await asyncio.sleep(0)
            began_s = self._clock()
            await asyncio.sleep(0)
            if self._clock() - began_s < BUSY_S:
                return
            await asyncio.sleep(REST_S)

    def _write_some(self) -> None:
        """One record at least, then more while the slice lasts: sockets wait no longer than that."""
        until_s = self._clock() + SLICE_S
        while self._waiting:
            self._write_one()
            if self._clock() > until_s:
                return

    def _write_one(self) -> None:
        _, ask, exchange = self._waiting.popleft()
        self._waiting_bytes -= exchange.reads.raw_bytes
        record = record_of(ask, exchange)
        self.outcomes[record.outcome] += 1
        self.lengths.see(ask.least_tokens, record)
        if record.outcome is not Outcome.DONE and self.first_failure is None:
            self.first_failure = f"{record.outcome}: {record.why}"
        try:
            self._on_record(record)
        except BaseException:
            self._broken = (
                True  # the records have nowhere to go: what still waits is lost, and the caller is told
            )
            raise


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first real error of a group, without the group: callers and users know it by its own name."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
