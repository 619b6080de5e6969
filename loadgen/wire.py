"""HTTP/1.1 to one server, as thin as a load wants it: no redirects, cookies, proxies, compression or retries.

A request is one buffer and one write, right after its stamp; connections are kept and used again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from urllib.parse import quote, urlsplit

from engines.certificates import check_certificates
from loadgen.connection import Connection, SocketConnection, TransportConnection
from loadgen.lag import ReadLag
from loadgen.reads import Clock, Reads
from loadgen.request import header_lines
from loadgen.stamps import KernelStamps
from loadgen.transcript import excerpt

CLASS_HEADER = "X-Depthgate-Class"  # the embedded engine draws acceptance by it; other servers ignore it
KEEPALIVE_S = 4.0  # below uvicorn's 5 s: a server must not close a connection just as it is used again


class WireError(Exception):
    """There was no exchange; the message is a plain sentence."""


class Answer:
    """What is known of a request while it is under way; whoever cancels it still finds here what came."""

    __slots__ = ("reads", "sent_s")

    def __init__(self, streams: bool = True) -> None:
        self.sent_s: float | None = None
        self.reads = Reads(streams)


class Wire:
    """Connections to one server. `headers` go with every request.

    Raises ValueError on a bad URL, EngineError for certificates that cannot be read.
    """

    def __init__(self, base_url: str, headers: dict[str, str], clock: Clock) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"URL {base_url!r}: write http://127.0.0.1:8000")
        check_certificates(base_url)
        self._clock = clock
        self._stamps = KernelStamps(clock)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host = parts.hostname
        self._port = parts.port or (443 if self._tls else 80)
        self._path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")
        self._headers = header_lines({"Host": parts.netloc.rpartition("@")[2]} | headers)
        self._addresses: list[tuple[socket.AddressFamily, tuple[object, ...]]] = []
        self._idle: deque[tuple[float, Connection]] = deque()

    @property
    def lag(self) -> ReadLag:
        """How late reads were taken so far."""
        return self._stamps.lag

    async def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    async def post(self, path: str, body: bytes, traffic_class: str, answer: Answer) -> None:
        """Fills `answer` until the response has ended. Raises WireError or OSError."""
        own = header_lines({CLASS_HEADER: quote(traffic_class, safe=" "), "Content-Length": str(len(body))})
        await self._exchange(b"".join((self._start("POST", path), own, b"\r\n", body)), answer)

    async def get(self, path: str, answer: Answer) -> None:
        """As `post`."""
        await self._exchange(self._start("GET", path) + b"\r\n", answer)

    def _start(self, method: str, path: str) -> bytes:
        return f"{method} {self._path}{path} HTTP/1.1\r\n".encode() + self._headers

    async def _exchange(self, request: bytes, answer: Answer) -> None:
        answer.reads.asked_s = self._clock()
        connection = self._kept() or await self._opened()
        reusable = False
        try:
            over = connection.begin(answer.reads)
            answer.sent_s = self._clock()
            await connection.write(request)
            await over
            reusable = answer.reads.reusable
        finally:
            if reusable and not connection.closed:
                self._idle.append((self._clock(), connection))
            else:
                connection.close()  # an answer may still be on its way: nobody else must get it

    def _kept(self) -> Connection | None:
        """The connection used last, unless a server may be about to close it."""
        while self._idle:
            since_s, connection = self._idle.pop()
            if not connection.closed and self._clock() - since_s < KEEPALIVE_S:
                return connection
            connection.close()
        return None

    async def _opened(self) -> Connection:
        """Raises WireError: no such host, nobody listens, TLS fails."""
        loop = asyncio.get_running_loop()
        if not self._addresses:
            self._addresses = await self._resolved(loop)
        for family, address in self._addresses:
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.sock_connect(sock, address)
                return await self._connection(loop, sock)
            except ssl.SSLError as error:
                sock.close()
                raise WireError(f"TLS: {excerpt(error)}") from None
            except OSError as error:
                sock.close()
                reason = error.strerror or excerpt(error)
            except BaseException:
                sock.close()
                raise
        raise WireError(f"cannot connect to {self._host}:{self._port}: {reason}")

    async def _resolved(
        self, loop: asyncio.AbstractEventLoop
    ) -> list[tuple[socket.AddressFamily, tuple[object, ...]]]:
        try:
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError):
            raise WireError(f"cannot resolve host {self._host!r}") from None
        return [(family, address) for family, _, _, _, address in found]

    async def _connection(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> Connection:
        if self._tls is None:
            return SocketConnection(sock, loop, self._stamps)
        _, connection = await loop.create_connection(
            lambda: TransportConnection(loop, self._clock),
            sock=sock,
            ssl=self._tls,
            server_hostname=self._host,
        )
        return connection
