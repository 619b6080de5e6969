"""One connection to a server: writes a request, stamps what comes back, wakes one task when it has ended."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Protocol

from loadgen.reads import Clock, Reads
from loadgen.stamps import ROOM, KernelStamps

READ_BYTES = 1 << 16


class Connection(Protocol):
    """One exchange at a time; what ends it too early is in `reads.lost`."""

    closed: bool

    def begin(self, reads: Reads) -> asyncio.Future[None]:
        """Whose bytes come next; the future is done when there are no more."""
        ...

    async def write(self, request: bytes) -> None: ...

    def close(self) -> None: ...


class _Exchanging:
    """What both kinds share: the response under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.closed = False
        self._loop = loop
        self._reads: Reads | None = None
        self._over: asyncio.Future[None] | None = None

    def begin(self, reads: Reads) -> asyncio.Future[None]:
        self._reads, self._over = reads, self._loop.create_future()
        return self._over

    def _end(self) -> None:
        self._reads = None
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _lose(self, error: BaseException | None) -> None:
        self.closed = True
        if self._reads is not None:
            self._reads.ended(error)
            self._end()


class SocketConnection(_Exchanging):
    """Plain TCP, read with the kernel's stamps."""

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop, stamps: KernelStamps) -> None:
        super().__init__(loop)
        self._socket = sock
        self._stamps = stamps
        self._receive = sock.recvmsg
        self._since_s = 0.0  # no byte of the answer is older
        stamps.ask(sock)
        loop.add_reader(sock.fileno(), self._ready)

    def begin(self, reads: Reads) -> asyncio.Future[None]:
        self._since_s = self._stamps.align()
        return super().begin(reads)

    async def write(self, request: bytes) -> None:
        try:
            sent = self._socket.send(request)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(request):
            await self._loop.sock_sendall(self._socket, request[sent:])

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        self._lose(None)

    def _ready(self) -> None:
        try:
            piece, ancillary, _, _ = self._receive(READ_BYTES, ROOM)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return self.close()
        reads = self._reads
        if not piece or reads is None:  # an end, or bytes that nobody asked for
            self._lose(None)
            return self.close()
        times = reads.times
        if reads.keep(self._stamps.read_s(ancillary, times[-1] if times else self._since_s), piece):
            self._end()
        return None


class TransportConnection(_Exchanging, asyncio.Protocol):
    """TLS, over the event loop's transport; stamps are the program's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        super().__init__(loop)
        self._clock = clock
        self._transport: Any = None

    async def write(self, request: bytes) -> None:
        self._transport.write(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._lose(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._reads is None:
            self.close()
        elif self._reads.keep(self._clock(), data):
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(exc)
