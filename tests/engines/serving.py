"""An embedded engine served inside the test's own event loop, and small HTTP clients for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiohttp
import orjson
from aiohttp import web

from engines.embedded.assembly import Assembled, assemble
from engines.embedded.core import EngineCore
from engines.embedded.journal import StepJournal
from engines.embedded.routes import EngineRoutes

PROFILE = "h200-qwen3-4b-eagle"  # steps of a few milliseconds
SCHEDULE = {"schedule": [[1, 2, 2], [3, 512, 0]]}


@dataclass(frozen=True, slots=True)
class Served:
    """A server under test and a client session on it."""

    url: str
    assembled: Assembled
    client: aiohttp.ClientSession
    crashes: list[str]

    @property
    def core(self) -> EngineCore:
        return self.assembled.core

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, dict[str, Any]]:
        """Status and JSON of a request that is not streamed; bytes are sent as they are."""
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        async with self.client.post(path, data=raw, headers=headers) as response:
            return response.status, cast(dict[str, Any], orjson.loads(await response.read()))

    async def events(self, path: str, body: Mapping[str, object], **headers: str) -> list[dict[str, Any]]:
        """The JSON events of a stream that must end with [DONE]."""
        async with self.client.post(path, json={**body, "stream": True}, headers=headers) as response:
            assert response.status == 200, await response.text()
            return parse_events(await response.read())

    async def metrics(self) -> dict[str, float]:
        """Sample (name, with position= when it has one) -> value."""
        async with self.client.get("/metrics") as response:
            return parse_metrics(await response.text())


@asynccontextmanager
async def serving(
    governor: str = "off",
    options: Mapping[str, object] | None = None,
    engine_options: Mapping[str, object] | None = None,
    seed: int = 0,
    steps: Path | None = None,
) -> AsyncIterator[Served]:
    assembled = assemble(PROFILE, governor, options or {}, engine_options or {}, seed)
    journal = StepJournal(steps)
    crashes: list[str] = []
    routes = EngineRoutes(assembled, journal, seed, crashed=lambda: crashes.append("crashed"))
    runner = web.AppRunner(routes.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    journal.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with aiohttp.ClientSession(url) as client:
            yield Served(url, assembled, client, crashes)
    finally:
        routes.stop()
        await journal.close()
        await runner.cleanup()


def chat(text: str = "hello there", **fields: Any) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 12, "ignore_eos": True, **fields}


def parse_events(raw: bytes) -> list[dict[str, Any]]:
    """Every event is one `data:` line; the last is [DONE], once."""
    blocks = raw.split(b"\n\n")
    assert blocks[-1] == b""
    assert blocks[-2] == b"data: [DONE]"
    assert all(block.startswith(b"data: ") for block in blocks[:-1])
    return [orjson.loads(block.removeprefix(b"data: ")) for block in blocks[:-2]]


def streamed_text(events: list[dict[str, Any]]) -> str:
    """The text of a stream, whichever route it came from."""
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(c["delta"].get("content", "") if "delta" in c else c["text"] for c in choices)


def parse_metrics(text: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("} ")
        for label in ("position", "finished_reason", "le"):
            if f'{label}="' in labels:
                name += f"[{labels.split(f'{label}=' + chr(34))[1].split(chr(34))[0]}]"
        values[name] = float(value)
    return values


async def until(condition: Callable[[], object], patience_s: float = 30.0) -> None:
    """Waits for a condition on the state of a server; what never comes about fails the test."""
    for _ in range(int(patience_s / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("what the test waits for has not come about")
