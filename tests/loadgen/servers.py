"""Small servers that answer exactly what a test scripted, byte by byte, on a free port of 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from engines.contract import Endpoint

DONE = b"data: [DONE]\n\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    line: str
    headers: dict[str, str]
    body: dict[str, Any]


Answer = Callable[[asyncio.StreamWriter, Asked], Awaitable[None]]


@asynccontextmanager
async def serving(
    answer: Answer,
    gets: dict[str, Callable[[], str]] | None = None,
    tls: ssl.SSLContext | None = None,
    backlog: int = 100,
) -> AsyncIterator[Endpoint]:
    """`answer` takes every POST; `gets` has the paths that a GET finds; `backlog`: of handshakes."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while asked := await _asked(reader):
                if asked.line.startswith("GET"):
                    writer.write(_get(asked, gets or {}))
                else:
                    await answer(writer, asked)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls, backlog=backlog)
    port = server.sockets[0].getsockname()[1]
    try:
        scheme = "http" if tls is None else "https"
        yield Endpoint(f"{scheme}://127.0.0.1:{port}", "m", "scripted", is_model=False)
    finally:
        server.close()


async def _asked(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(line, headers, json.loads(body) if body else {})


def _get(asked: Asked, gets: dict[str, Callable[[], str]]) -> bytes:
    text = gets.get(asked.line.split()[1])
    return response(404, b"") if text is None else response(200, text().encode())


def response(status: int, body: bytes, **headers: str) -> bytes:
    """A whole answer with a length."""
    lines = [f"HTTP/1.1 {status} Some Reason", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "\r\n"]).encode() + body


def chunk(data: bytes) -> bytes:
    """One HTTP chunk; empty ends the body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(text: str = "hi", tokens: int | None = None, **more: Any) -> bytes:
    """A content event of the chat route."""
    usage = None if tokens is None else {"prompt_tokens": 5, "completion_tokens": tokens}
    return (
        b"data: "
        + json.dumps({"choices": [{"delta": {"content": text}}], "usage": usage} | more).encode()
        + b"\n\n"
    )


def whole(*events: bytes) -> bytes:
    """A stream that ends as it should."""
    return STREAM + b"".join(map(chunk, (*events, DONE))) + chunk(b"")


def says(data: bytes, hang_up: bool = False) -> Answer:
    """Answers every request with these bytes."""

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        writer.write(data)
        if hang_up:
            await writer.drain()
            writer.close()

    return answer


def reset(writer: asyncio.StreamWriter) -> None:
    """Closes with RST instead of FIN."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
