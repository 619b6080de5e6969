"""Turns finished exchanges into records beside the load: parsing never delays a stream's next request."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from loadgen.exchange import Ask, Exchange, record_of
from loadgen.reads import Clock
from loadgen.records import Outcome, RequestRecord

SLICE_S = 0.0005  # of parsing between two looks at the sockets
BACKLOG = 4096  # exchanges that may wait unparsed; beyond it each one is parsed at once


class Scribe:
    """`put` exchanges in; `on_record` gets records, in the order in which the requests ended.

    What `on_record` raises (a full disk) ends the block of `writing` and so the load.
    """

    def __init__(self, on_record: Callable[[RequestRecord], None], clock: Clock) -> None:
        self._on_record = on_record
        self._clock = clock
        self._waiting: deque[tuple[Ask, Exchange]] = deque()
        self._more = asyncio.Event()
        self._broken = False
        self.outcomes: Counter[Outcome] = Counter()
        self.first_failure: str | None = None

    def put(self, ask: Ask, exchange: Exchange) -> None:
        self._waiting.append((ask, exchange))
        self._more.set()
        while len(self._waiting) > BACKLOG:
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
                self._write_some()
                await asyncio.sleep(0)

    def _write_some(self) -> None:
        """One record at least, then more while the slice lasts: sockets wait no longer than that."""
        until_s = self._clock() + SLICE_S
        self._write_one()
        while self._waiting and self._clock() < until_s:
            self._write_one()

    def _write_one(self) -> None:
        record = record_of(*self._waiting.popleft())
        self.outcomes[record.outcome] += 1
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
