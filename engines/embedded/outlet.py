"""Where a request's tokens go: straight to its connection as events, or into one answer when all are there.

Policy for a slow reader: the engine never waits, and memory does not grow. While more than SLOW_READER_BYTES
lie unsent on a connection, nothing is written to it; tokens are only counted (text.py can make them at any
time), and leave together in one event when the reader has caught up.
"""

from __future__ import annotations

import asyncio

from engines.embedded.replies import EventWriter, error_event

SLOW_READER_BYTES = 64 * 1024


class EngineStopped(Exception):
    """The engine went away under a request."""


class WholeOutlet:
    """Collects a request that is not streamed."""

    __slots__ = ("done", "finished", "tokens")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self.finished = False
        self.tokens = 0

    def advance(self, count: int, finished: bool) -> None:
        self.tokens += count
        self.finished = finished
        if finished and not self.done.done():
            self.done.set_result(None)

    def fail(self, message: str) -> None:
        if not self.done.done():
            self.done.set_exception(EngineStopped(message))


class StreamOutlet:
    """Writes events of a streamed request, one write a step, past aiohttp's writer (a task switch a chunk).

    The first events and what a slow reader has left over go through aiohttp: the handler awaits `started`,
    sends `take()`, calls `attach`, awaits `done`, sends `take()` again if `pending`.
    """

    __slots__ = (
        "_chunked",
        "_events",
        "_finish",
        "_sent",
        "_tokens",
        "_transport",
        "done",
        "failed",
        "finished",
        "started",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, events: EventWriter, finish_reason: str) -> None:
        self.started: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()
        self.finished = False
        self.failed: str | None = None
        self._events = events
        self._finish = finish_reason
        self._tokens = 0
        self._sent = 0
        self._transport: asyncio.Transport | None = None
        self._chunked = True

    @property
    def pending(self) -> bool:
        """Something is left to send."""
        return self._sent < self._tokens or self.failed is not None

    def attach(self, transport: asyncio.Transport, *, chunked: bool) -> None:
        """From now on events go to this transport; `chunked`: framed for HTTP/1.1's chunked encoding."""
        self._transport = transport
        self._chunked = chunked

    def advance(self, count: int, finished: bool) -> None:
        """`count` more tokens were emitted; never blocks."""
        self._tokens += count
        self.finished = finished
        transport = self._transport
        if transport is None:
            _settle(self.started)
        elif not transport.is_closing() and transport.get_write_buffer_size() <= SLOW_READER_BYTES:
            self._write(transport, self.take())
        if finished:
            _settle(self.done)

    def fail(self, message: str) -> None:
        """The engine stopped: the handler sends an error event and ends without a terminal one."""
        self.failed = message
        _settle(self.started)
        _settle(self.done)

    def take(self) -> bytes:
        """The events due: what was emitted and not yet taken, closed when the request has finished."""
        if self.failed is not None:
            return error_event(self.failed)
        start, stop = self._sent, self._tokens
        self._sent = stop
        events = self._events.content(start, stop, self._finish if self.finished else None)
        if start == 0:
            events = self._events.first() + events
        return events + self._events.closing(stop) if self.finished else events

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
