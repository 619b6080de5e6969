"""HTTP/1.1 over aiohttp's connections: its connector, TLS and response parser, without its session.

`ClientSession` costs some 200 us a request and, before Python 3.12, writes the body one loop turn late: a
wave of 64 requests leaves up to 10 ms after its stamps. Here a request is one buffer and one write, right
after its stamp. No redirects, cookies, proxies or retries, none of which a load wants.
"""

from __future__ import annotations

from urllib.parse import quote

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from yarl import URL

from loadgen.reads import Clock, Reads, StampingConnector, StampingHandler

CLASS_HEADER = "X-Depthgate-Class"  # the embedded engine draws acceptance by it; other servers ignore it
NO_TIMEOUT = aiohttp.ClientTimeout(total=None)  # the caller has a deadline for the whole request


class Answer:
    """What is known of a request while it is under way; whoever cancels it still finds here what came."""

    __slots__ = ("headers", "reads", "sent_s", "status")

    def __init__(self) -> None:
        self.sent_s: float | None = None
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.reads = Reads()


class Wire:
    """Connections to one server. `headers` go with every request. Raises aiohttp.InvalidURL on a bad URL."""

    def __init__(self, base_url: str, headers: dict[str, str], clock: Clock) -> None:
        self._clock = clock
        self._base = URL(base_url)
        self._connector = StampingConnector(clock)
        self._origin = ClientRequest("GET", self._base, headers=headers)  # what connections are pooled by
        self._headers = _lines(dict(self._origin.headers))

    async def close(self) -> None:
        await self._connector.close()

    async def post(self, path: str, body: bytes, traffic_class: str, answer: Answer) -> None:
        """Fills `answer` until the response has ended. Raises aiohttp.ClientError or OSError."""
        own = _lines({CLASS_HEADER: quote(traffic_class, safe=" "), "Content-Length": str(len(body))})
        await self._exchange(b"".join((self._start("POST", path), own, b"\r\n", body)), answer, streams=True)

    async def get(self, path: str, answer: Answer) -> None:
        """As `post`; the body is kept whole."""
        await self._exchange(self._start("GET", path) + b"\r\n", answer, streams=False)

    def _start(self, method: str, path: str) -> bytes:
        target = self._base.raw_path.rstrip("/") + path
        return f"{method} {target} HTTP/1.1\r\n".encode() + self._headers

    async def _exchange(self, request: bytes, answer: Answer, streams: bool) -> None:
        connection = await self._connector.connect(self._origin, [], NO_TIMEOUT)
        try:
            await self._over(connection, request, answer, streams)
        except BaseException:
            connection.close()  # an answer may still be on its way: nobody else must get it
            raise
        connection.release()

    async def _over(self, connection: Connection, request: bytes, answer: Answer, streams: bool) -> None:
        handler, transport = connection.protocol, connection.transport
        if not isinstance(handler, StampingHandler) or transport is None:
            raise aiohttp.ServerDisconnectedError
        answer.reads = handler.begin(streams)
        answer.sent_s = self._clock()
        transport.write(request)
        message, payload = await handler.read()
        while 100 <= message.code < 200:
            message, payload = await handler.read()
        answer.status = message.code
        answer.headers = {name.lower(): value for name, value in message.headers.items()}
        error = payload.exception()  # wait_eof would wait for ever on a stream that has failed already
        if error is not None:
            raise error
        await payload.wait_eof()


def _lines(headers: dict[str, str]) -> bytes:
    """Header lines. Raises ValueError on a line break inside a value, such as a key pasted with one."""
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"header {name} holds a line break; remove it")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
