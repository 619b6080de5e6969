"""One request over HTTP, streamed, never retried: sends, stamps, keeps the bytes, and says how it ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from engines.contract import Endpoint
from loadgen.dialogue import Message
from loadgen.exchange import Exchange
from loadgen.lag import ReadLag
from loadgen.reads import Clock
from loadgen.request import ROUTES, ClientSettings, request_body, request_headers
from loadgen.traffic import Prompt
from loadgen.verdict import End, Ending, ending_of
from loadgen.wire import Answer, Wire, WireError

__all__ = ["Client", "ClientSettings"]

FAULTS = (WireError, OSError)  # TimeoutError is an OSError


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
        self._wire = Wire(self._base, request_headers(), self._clock)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.close()

    async def send(
        self, prompt: Prompt, due_s: float | None = None, before: Sequence[Message] = ()
    ) -> Exchange:
        """One request, after what was said `before`. Never raises for what a server or the network does.

        A cancellation is an Exchange too (End.CANCEL): the caller keeps it, then raises CancelledError anew.
        """
        due_s = self._clock() if due_s is None else due_s
        keeps_text = self._settings.keep_text or not prompt.last
        answer = Answer(streams=not keeps_text)
        try:
            async with asyncio.timeout(max(0.0, due_s + self._settings.timeout_s - self._clock())):
                body = request_body(self._endpoint.model, self._settings, prompt, before)
                await self._wire.post(self._route, body, prompt.traffic_class, answer)
            ending = ending_of(answer.reads)
        except TimeoutError:
            ending = Ending(End.DEADLINE, f"no end within {self._settings.timeout_s:g} s")
        except asyncio.CancelledError:
            ending = Ending(End.CANCEL)
        except WireError as error:
            ending = Ending(End.FAULT, str(error))
        except OSError as error:
            answer.reads.ended(error)
            ending = ending_of(answer.reads)
        reads = answer.reads
        ended_s = reads.times[-1] if reads.times else self._clock()
        said = reads.text() if keeps_text and reads.status == 200 else None
        return Exchange(due_s, answer.sent_s, reads.status, reads, ending, ended_s, reads.headers, said)

    @property
    def lag(self) -> ReadLag:
        """How late reads were taken so far."""
        return self._wire.lag

    async def connect(self, connections: int) -> None:
        """Opens connections ahead of the load: the first burst then times the engine, not TCP and TLS."""
        await asyncio.gather(*(self.get("/health") for _ in range(connections)))

    async def get(self, path: str, timeout_s: float = 5.0) -> str | None:
        """A small text from the server, None when it cannot be had."""
        answer = Answer(streams=False)
        try:
            async with asyncio.timeout(timeout_s):
                await self._wire.get(path, answer)
        except FAULTS:
            return None
        return answer.reads.text() if answer.reads.status == 200 else None
