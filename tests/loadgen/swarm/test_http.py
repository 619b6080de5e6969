"""The gevent client says of a misbehaving server what the asyncio client says, word for word."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from depthgate.loop import run_loop
from engines.contract import Endpoint, EngineError
from loadgen.client import Client
from loadgen.exchange import Ask, Exchange, record_of
from loadgen.records import CellKey, Outcome
from loadgen.request import ClientSettings
from loadgen.swarm.http import StreamClient
from loadgen.traffic import Prompt

PROMPT = Prompt("hi", "chat", 8, ignore_eos=False, seed=1)
SETTINGS = ClientSettings(timeout_s=60.0)
HASTY = ClientSettings(timeout_s=0.5)  # for what hangs
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}\n\n'
DONE = b"data: [DONE]\n\n"
HANG, RESET = "hang", "reset"

Script = tuple[bytes | str, ...]


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


SCRIPTS: dict[str, tuple[Script, Outcome]] = {
    "whole": ((HEAD, chunked(CHUNK), chunked(DONE), b"0\r\n\r\n"), Outcome.DONE),
    "split": ((HEAD + b"4\r\nda", b"ta\r\n", chunked(CHUNK[4:] + DONE) + b"0\r\n\r\n"), Outcome.DONE),
    "refused": ((b"HTTP/1.1 503 No\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nfull",), Outcome.REFUSED),
    "bad": (
        (b'HTTP/1.1 400 No\r\nContent-Length: 19\r\n\r\n{"error":"no luck"}',),
        Outcome.FAILED,
    ),
    "cut": ((HEAD, chunked(CHUNK)), Outcome.TRUNCATED),
    "reset": ((HEAD, chunked(CHUNK), RESET), Outcome.FAILED),
    "silent": ((), Outcome.FAILED),
    "no http": ((b"hello there\r\n\r\n",), Outcome.FAILED),
    "hangs": ((HEAD, chunked(CHUNK), HANG), Outcome.TIMED_OUT),
    "no stream": ((b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",), Outcome.FAILED),
}


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Threads of the real kind: neither gevent's hub nor asyncio's loop has to turn for it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_answer, args=(connection, script), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def _answer(connection: socket.socket, script: Script) -> None:
    asked = b""
    while not asked.endswith(b"}"):
        asked += connection.recv(65536)
    for piece in script:
        if piece == HANG:
            time.sleep(2.0)
        elif piece == RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif isinstance(piece, bytes):
            connection.sendall(piece)
            time.sleep(0.05)
    connection.close()


def by_gevent(url: str, settings: ClientSettings) -> Exchange:
    client = StreamClient(url, "m", settings, time.monotonic)
    try:
        exchange, cancelled = client.send(PROMPT, time.monotonic())
    finally:
        client.close()
    assert cancelled is None
    return exchange


def by_asyncio(url: str, settings: ClientSettings) -> Exchange:
    async def send() -> Exchange:
        endpoint = Endpoint(url, "m", "scripted", is_model=False)
        async with Client(endpoint, settings, time.monotonic) as client:
            return await client.send(PROMPT)

    return run_loop(send)


def said(exchange: Exchange) -> tuple[object, ...]:
    ask = Ask.of("a/c1/r0/s0/0", CellKey("a", 1, 0), PROMPT, False)
    record = record_of(ask, exchange)
    return (
        record.outcome,
        record.why,
        record.output_tokens,
        record.chunk_tokens,
        len(record.chunk_times_s),
        record.first_byte_s is None,
        exchange.status,
    )


@pytest.mark.http
@pytest.mark.parametrize("name", SCRIPTS)
def test_both_clients_say_the_same(name: str) -> None:
    script, outcome = SCRIPTS[name]
    settings = HASTY if HANG in script else SETTINGS
    with serving(script) as url:
        mine = by_gevent(url, settings)
        assert said(mine) == said(by_asyncio(url, settings))
    assert said(mine)[0] is outcome
    assert mine.sent_s is not None
    assert mine.due_s <= mine.sent_s
    assert list(mine.reads.times) == sorted(mine.reads.times)


@pytest.mark.http
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1", "cannot connect to 127.0.0.1:1: "),  # then the system's own words, of the loop
        ("http://no-such-host.invalid:80", "cannot resolve host 'no-such-host.invalid'"),
    ],
)
def test_both_say_who_cannot_be_reached(url: str, words: str) -> None:
    mine = by_gevent(url, SETTINGS)
    for exchange in (mine, by_asyncio(url, SETTINGS)):
        assert exchange.ending.text.startswith(words)
        assert said(exchange)[0] is Outcome.FAILED
    assert mine.sent_s is None


def test_a_key_with_a_line_break_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "abc\r\nX-Other: 1")
    with pytest.raises(EngineError, match="holds characters that a header cannot carry"):
        StreamClient("http://127.0.0.1:1", "m", SETTINGS, time.monotonic)


def test_a_bad_url_is_refused() -> None:
    with pytest.raises(ValueError, match=r"write http://127\.0\.0\.1:8000"):
        StreamClient("127.0.0.1:8000", "m", SETTINGS, time.monotonic)
