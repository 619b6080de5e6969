"""One request over HTTP, streamed, never retried: sends, stamps, keeps the bytes, and says how it ended."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson
from aiohttp.http_exceptions import HttpProcessingError

from engines.contract import Endpoint
from loadgen.exchange import Exchange
from loadgen.reads import Clock, Reads
from loadgen.traffic import Prompt
from loadgen.transcript import excerpt
from loadgen.verdict import End, Ending
from loadgen.wire import Answer, Wire

KEY_VARIABLE = "OPENAI_API_KEY"
FAULTS = (aiohttp.ClientError, HttpProcessingError, OSError)  # TimeoutError is an OSError
ROUTES = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`timeout_s`: a request's deadline, from its due time. `extra_body`: fields added to every body.

    `usage`, `continuous_usage`: ask for token counts; leave out only for a server that rejects them.
    """

    route: str = "chat"
    timeout_s: float = 300.0
    usage: bool = True
    continuous_usage: bool = True
    extra_body: dict[str, object] = field(default_factory=dict)


class Client:
    """`async with Client(endpoint, settings) as client: exchange = await client.send(prompt)`.

    The API key comes from the environment (OPENAI_API_KEY), is sent and never kept; TLS is verified.
    """

    def __init__(
        self, endpoint: Endpoint, settings: ClientSettings, clock: Clock = time.perf_counter
    ) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._clock = clock
        self._base = endpoint.base_url.rstrip("/")
        self._route = ROUTES[settings.route]

    async def __aenter__(self) -> Self:
        self._wire = Wire(self._base, _headers(), self._clock)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.close()

    async def send(self, prompt: Prompt, due_s: float | None = None) -> Exchange:
        """One request. Never raises for what a server or the network does.

        A cancellation is an Exchange too (End.CANCEL): the caller keeps it, then raises CancelledError anew.
        """
        due_s = self._clock() if due_s is None else due_s
        answer, ending = Answer(), Ending(End.EOF)
        try:
            async with asyncio.timeout(max(0.0, due_s + self._settings.timeout_s - self._clock())):
                await self._wire.post(self._route, self._body(prompt), prompt.traffic_class, answer)
            if isinstance(answer.reads.lost, OSError):
                ending = Ending(End.FAULT, "connection reset in mid-stream")
        except TimeoutError:
            ending = Ending(End.DEADLINE, f"no end within {self._settings.timeout_s:g} s")
        except asyncio.CancelledError:
            ending = Ending(End.CANCEL)
        except FAULTS as error:
            ending = _fault(error, answer.reads)
        reads = answer.reads
        ended_s = reads.times[-1] if reads.times else self._clock()
        return Exchange(due_s, answer.sent_s, answer.status, reads, ending, ended_s, answer.headers)

    async def connect(self, connections: int) -> None:
        """Opens connections ahead of the load: the first burst then times the engine, not TCP and TLS."""
        await asyncio.gather(*(self.get("/health") for _ in range(connections)))

    async def get(self, path: str, timeout_s: float = 5.0) -> str | None:
        """A small text from the server, None when it cannot be had."""
        answer = Answer()
        try:
            async with asyncio.timeout(timeout_s):
                await self._wire.get(path, answer)
        except FAULTS:
            return None
        return answer.reads.text() if answer.status == 200 else None

    def _body(self, prompt: Prompt) -> bytes:
        settings = self._settings
        body: dict[str, Any] = {"model": self._endpoint.model, "stream": True, "temperature": 0}
        if settings.route == "chat":
            body["messages"] = [{"role": "user", "content": prompt.text}]
        else:
            body["prompt"] = prompt.text
        body |= {"max_tokens": prompt.max_tokens, "seed": prompt.seed}
        if settings.usage:
            options = {"include_usage": True}
            body["stream_options"] = (
                options | {"continuous_usage_stats": True} if settings.continuous_usage else options
            )
        if prompt.ignore_eos:
            body["ignore_eos"] = True
        return orjson.dumps(body | settings.extra_body)


def _headers() -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
    }
    if key := os.environ.get(KEY_VARIABLE):
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _fault(error: Exception, reads: Reads) -> Ending:
    """A plain sentence. An end without a reset is an end: what the stream lacks then decides."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Ending(End.FAULT, f"cannot resolve host {error.host!r}")
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return Ending(End.FAULT, f"TLS: {excerpt(error)}")
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error.strerror or excerpt(error.os_error)
        return Ending(End.FAULT, f"cannot connect to {error.host}:{error.port}: {reason}")
    if isinstance(reads.lost, OSError) or isinstance(error, ConnectionResetError):
        return Ending(End.FAULT, "connection reset in mid-stream" if reads.total else "connection reset")
    if reads.flood is not None:
        return Ending(End.FAULT, reads.flood)
    if isinstance(error, aiohttp.ClientPayloadError):
        return Ending(End.EOF)
    if isinstance(error, HttpProcessingError):
        return Ending(End.FAULT, f"the answer is not HTTP: {excerpt(error.message)}")
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return Ending(End.FAULT, "the server closed the connection without an answer")
    return Ending(End.FAULT, f"{type(error).__name__}: {excerpt(error)}")
