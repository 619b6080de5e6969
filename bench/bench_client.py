"""Speed of the load generator: parsing a stream, and chunks a second over HTTP on loopback.

The server of the HTTP figures is a few lines of asyncio in another process that writes prepared bytes: the
client is the limit. Compare runs as ratios; machines differ.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import orjson
import pytest

from engines.contract import Endpoint
from loadgen.client import Client, ClientSettings
from loadgen.exchange import Ask, Exchange, record_of
from loadgen.records import CellKey, Outcome
from loadgen.sse import SseParser
from loadgen.traffic import Prompt
from loadgen.transcript import TranscriptReader

CHUNKS = 512
STREAMS = 16
DONE = b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(number: int) -> bytes:
    """A chunk as vLLM sends it, with continuous usage."""
    chunk = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None}],
        "usage": {"prompt_tokens": 40, "total_tokens": 40 + number, "completion_tokens": number},
    }
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


BODY = b"".join(event(number) for number in range(1, CHUNKS + 1)) + DONE


def test_sse_parse(benchmark: Any) -> None:
    """Events of a whole stream at once, as the client parses them."""
    events = benchmark(lambda: SseParser().feed(BODY))
    assert len(events) == CHUNKS + 1
    benchmark.extra_info["events_per_s"] = (CHUNKS + 1) / benchmark.stats["median"]


def test_sse_parse_crlf(benchmark: Any) -> None:
    """The same with CRLF: the slow path."""
    body = BODY.replace(b"\n", b"\r\n")
    assert len(benchmark(lambda: SseParser().feed(body))) == CHUNKS + 1


def test_transcript(benchmark: Any) -> None:
    """Bytes to token counts, JSON included."""

    def read() -> int | None:
        reader = TranscriptReader()
        reader.feed(BODY)
        return reader.transcript().output_tokens

    assert benchmark(read) == CHUNKS
    benchmark.extra_info["chunks_per_s"] = CHUNKS / benchmark.stats["median"]


def serve(ready: Connection, chunks: int) -> None:
    """Answers every POST with `chunks` events, each an HTTP chunk of its own."""
    events = [*map(event, range(1, chunks + 1)), DONE]
    answer = HEAD + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in [*events, b""])

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                writer.write(
                    answer if head.startswith(b"POST") else b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@pytest.fixture(params=[CHUNKS, 1], ids=["512-chunks", "1-chunk"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[Endpoint, int]]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, request.param), daemon=True)
    process.start()
    try:
        yield Endpoint(f"http://127.0.0.1:{ours.recv()}", "m", "bench", False), request.param
    finally:
        process.terminate()
        process.join()


def test_http(benchmark: Any, server: tuple[Endpoint, int]) -> None:
    """16 streams of a closed loop, 64 requests, parsed into records; chunks and requests a second."""
    import uvloop

    endpoint, chunks = server
    requests = 4 * STREAMS

    async def load() -> list[Exchange]:
        async with Client(endpoint, ClientSettings()) as client:
            await client.connect(STREAMS)
            left = iter(range(requests))

            async def stream() -> list[Exchange]:
                return [await client.send(Prompt("how many?", "gsm8k", chunks, True, n)) for n in left]

            done = await asyncio.gather(*(stream() for _ in range(STREAMS)))
        return [exchange for each in done for exchange in each]

    def run() -> int:
        ask = Ask("r", CellKey("bench", STREAMS, 0), "gsm8k", chunks)
        records = [record_of(ask, exchange) for exchange in uvloop.run(load())]
        return sum(record.outcome is Outcome.DONE for record in records)

    assert benchmark.pedantic(run, rounds=5, warmup_rounds=1) == requests
    benchmark.extra_info["chunks_per_s"] = requests * chunks / benchmark.stats["median"]
    benchmark.extra_info["requests_per_s"] = requests / benchmark.stats["median"]
