"""Real vLLM for a session of tests: servers in a loop of their own, lent to whatever asks for an engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import aiohttp

from engines.contract import Endpoint, Engine, EngineRequest
from engines.vllm import VllmEngine
from suites.model import EngineSpec

Result = TypeVar("Result")
CALL_S = 900.0


class LiveVllm:
    """An engine whose servers stay up until `close`. `rates_file`: see tests/vllm/double/vllm_double.py."""

    def __init__(self, spec: EngineSpec, rates_file: Path) -> None:
        self.spec = spec
        self.rates_file = rates_file
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.engine = VllmEngine(spec)
        self.run(self.engine.__aenter__())

    def close(self) -> None:
        self.run(self.engine.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=30)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """In the servers' loop, waited for from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    async def elsewhere(self, work: Coroutine[Any, Any, Result]) -> Result:
        """In the servers' loop, awaited from another one."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


async def ask(endpoint: Endpoint, text: str, tokens: int) -> int:
    """A greedy completion; tokens that were answered."""
    body = {
        "model": endpoint.model,
        "prompt": text,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    url = f"{endpoint.base_url}/v1/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        assert answer.status == 200, await answer.text()
        return int((await answer.json())["usage"]["completion_tokens"])


class LentEngine:
    """An engines.contract.SharedEngine for another event loop, whose block ends no server."""

    def __init__(self, live: LiveVllm) -> None:
        self._live = live

    async def check(self, requests: Sequence[EngineRequest]) -> None:
        await self._live.elsewhere(self._live.engine.check(requests))

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def serve(self, request: EngineRequest) -> AbstractAsyncContextManager[Endpoint]:
        return self._serve(request)

    @asynccontextmanager
    async def _serve(self, request: EngineRequest) -> AsyncIterator[Endpoint]:
        arm = self._live.engine.serve(request)
        endpoint = await self._live.elsewhere(_enter(arm))
        try:
            yield endpoint
        finally:
            await self._live.elsewhere(_leave(arm))


async def _enter(arm: AbstractAsyncContextManager[Endpoint]) -> Endpoint:
    return await arm.__aenter__()


async def _leave(arm: AbstractAsyncContextManager[Endpoint]) -> None:
    await arm.__aexit__(None, None, None)
