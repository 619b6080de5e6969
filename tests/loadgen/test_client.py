"""Every way in which a request can end, against servers that misbehave on purpose."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engines.contract import Endpoint, EngineError
from loadgen.client import Client, ClientSettings
from loadgen.exchange import Ask, record_of
from loadgen.records import CellKey, Outcome, RequestRecord, TokenSource
from loadgen.traffic import Prompt
from tests.loadgen.servers import (
    DONE,
    STREAM,
    Answer,
    Asked,
    chunk,
    closed_port,
    event,
    reset,
    response,
    says,
    serving,
    whole,
)

pytestmark = pytest.mark.http
PROMPT = Prompt("how many?", "gsm8k", 8, True, 7)
GOOD = whole(event("a", 1), event("b c", 3))
KEY = b"sk-" + b"0123456789abcdef" * 3


async def ask(endpoint: Endpoint, settings: ClientSettings | None = None) -> RequestRecord:
    async with Client(endpoint, settings or ClientSettings()) as client:
        exchange = await client.send(PROMPT)
    return record_of(Ask("r0", CellKey("off", 1, 0), "gsm8k", 8), exchange)


def outcome(answer: Answer, **settings: Any) -> RequestRecord:
    async def run() -> RequestRecord:
        async with serving(answer) as endpoint:
            return await ask(endpoint, ClientSettings(**settings))

    return asyncio.run(run())


def test_a_whole_answer() -> None:
    record = outcome(says(GOOD))
    assert (record.outcome, record.why) == (Outcome.DONE, None)
    assert (record.output_tokens, record.chunk_tokens, record.prompt_tokens) == (3, (1, 2), 5)
    assert record.tokens_are is TokenSource.CONTINUOUS_USAGE
    stamps = [record.due_s, record.sent_s, record.first_byte_s, record.first_token_s, record.done_s]
    assert None not in stamps
    assert stamps == sorted(stamps, key=lambda stamp: stamp or 0.0)
    assert record.chunk_times_s[0] == record.first_token_s


def test_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    seen: list[Asked] = []

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        seen.append(asked)
        writer.write(GOOD)

    outcome(answer, extra_body={"top_k": 1})
    outcome(answer, route="completions", continuous_usage=False)
    outcome(answer, usage=False)
    chat, completions, bare = seen
    assert chat.line == "POST /v1/chat/completions HTTP/1.1"
    assert chat.headers["authorization"] == "Bearer sk-secret"
    assert chat.headers["x-depthgate-class"] == "gsm8k"
    assert chat.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "how many?"}],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "max_tokens": 8,
        "ignore_eos": True,
        "temperature": 0,
        "seed": 7,
        "top_k": 1,
    }
    assert completions.line == "POST /v1/completions HTTP/1.1"
    assert completions.body["prompt"] == "how many?"
    assert completions.body["stream_options"] == {"include_usage": True}
    assert "stream_options" not in bare.body


def test_no_key_no_authorization(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        assert "authorization" not in asked.headers
        writer.write(GOOD)

    assert outcome(answer).outcome is Outcome.DONE


def test_a_key_with_a_line_break_is_a_plain_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk\r\nX-Evil: 1")
    with pytest.raises(EngineError, match="OPENAI_API_KEY holds characters that a header cannot carry"):
        outcome(says(GOOD))


@pytest.mark.parametrize(
    "answer",
    [
        response(401, b'{"error": {"message": "incorrect key %b"}}' % KEY),
        response(403, b"<p>%b</p>" % KEY),
        response(429, b"", Retry_After=KEY.decode()),
        response(200, KEY, Content_Type=KEY.decode()),
        STREAM + chunk(b"data: %b\n\n" % KEY) + chunk(b""),
        STREAM + chunk(b'data: {"error": {"message": "%b"}}\n\n' % KEY) + chunk(b""),
        STREAM + KEY + b"\r\n",
        b"Bearer %b\r\n\r\n" % KEY,
        b"HTTP/1.1 200 OK\r\nBearer %b\r\n\r\n" % KEY,
    ],
)
def test_a_key_that_the_server_says_again_is_in_no_record(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY.decode())
    why = outcome(says(answer, hang_up=True)).why or ""
    assert "[API key]" in why
    assert "sk-0" not in why


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_is_its_own_outcome_and_is_not_retried(status: int) -> None:
    asked = 0

    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        nonlocal asked
        asked += 1
        writer.write(response(status, b'{"error": {"message": "too busy"}}', Retry_After="3"))

    record = outcome(answer)
    assert (record.outcome, record.why) == (Outcome.REFUSED, f"HTTP {status} (Retry-After: 3): too busy")
    assert (asked, record.first_token_s, record.done_s, record.output_tokens) == (1, None, None, None)


FAULTS: dict[str, tuple[bytes, bool, Outcome, str]] = {
    "500": (response(500, b"<h1>boom\x00</h1>"), False, Outcome.FAILED, "HTTP 500: <h1>boom </h1>"),
    "302": (response(302, b"", Location="/x"), False, Outcome.FAILED, "HTTP 302: empty body"),
    "error in a 200 stream": (
        whole(event(), b'data: {"error": {"message": "out of blocks"}}\n\n'),
        False,
        Outcome.FAILED,
        "error event in a 200 stream: out of blocks",
    ),
    "done with no event": (whole(), False, Outcome.FAILED, "[DONE] with no event before it"),
    "bad JSON": (whole(event(), b"data: {nope\n\n"), False, Outcome.FAILED, "event 2 is not JSON"),
    "no stream": (
        response(200, b'{"choices": []}', Content_Type="application/json"),
        False,
        Outcome.FAILED,
        '200, but no event stream (application/json): {"choices": []}',
    ),
    "not HTTP": (b"SSH-2.0-OpenSSH_9\r\n\r\n", True, Outcome.FAILED, "not HTTP"),
    "closed before an answer": (b"", True, Outcome.FAILED, "closed the connection without an answer"),
    "end without [DONE]": (
        STREAM + chunk(event()) + chunk(event()) + chunk(b""),
        False,
        Outcome.TRUNCATED,
        "the stream ended without [DONE], after 2 content chunks",
    ),
    "cut in mid-body": (STREAM + chunk(event()), True, Outcome.TRUNCATED, "after 1 content chunks"),
    "empty 200": (response(200, b""), False, Outcome.TRUNCATED, "before any content"),
}


@pytest.mark.parametrize(("data", "hang_up", "expected", "why"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(data: bytes, hang_up: bool, expected: Outcome, why: str) -> None:
    record = outcome(says(data, hang_up))
    assert record.outcome is expected
    assert why in (record.why or "")


def test_done_then_a_cut_is_done() -> None:
    record = outcome(says(STREAM + chunk(event("a", 1)) + chunk(DONE), hang_up=True))
    assert record.outcome is Outcome.DONE


def test_a_reset_keeps_what_had_come() -> None:
    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        writer.write(STREAM + chunk(event("a", 2)))
        await writer.drain()
        await asyncio.sleep(0.05)  # the client must have read it: a reset throws unread bytes away
        reset(writer)

    record = outcome(answer)
    assert record.outcome is Outcome.FAILED
    assert record.why == "connection reset in mid-stream after 1 content chunks"
    assert (record.output_tokens, len(record.chunk_times_s)) == (2, 1)


def test_a_hung_stream_ends_at_its_deadline() -> None:
    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        writer.write(STREAM + chunk(event("a", 2)))
        await asyncio.sleep(30)

    record = outcome(answer, timeout_s=0.2)
    assert (record.outcome, record.why) == (
        Outcome.TIMED_OUT,
        "no end within 0.2 s after 1 content chunks",
    )
    assert (record.output_tokens, record.done_s) == (2, None)


def test_a_hang_before_headers_ends_at_its_deadline() -> None:
    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        await asyncio.sleep(30)

    record = outcome(answer, timeout_s=0.2)
    assert (record.outcome, record.why) == (Outcome.TIMED_OUT, "no end within 0.2 s before any content")
    assert record.first_byte_s is None


def test_a_cancelled_request_is_a_record_and_the_server_is_told() -> None:
    left = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        writer.write(STREAM + chunk(event("a", 2)))
        try:
            while True:
                await writer.drain()
                await asyncio.sleep(0.01)
                writer.write(chunk(b": still here\n\n"))
        except ConnectionError:
            left.set()
            raise

    async def run() -> RequestRecord:
        async with serving(answer) as endpoint, Client(endpoint, ClientSettings()) as client:
            task = asyncio.create_task(client.send(PROMPT))
            await asyncio.sleep(0.1)
            task.cancel()
            record = record_of(Ask("r0", CellKey("off", 1, 0), "gsm8k", 8), await task)
            await asyncio.wait_for(left.wait(), 5)
            return record

    record = asyncio.run(run())
    assert (record.outcome, record.why) == (Outcome.CANCELLED, "cancelled after 1 content chunks")


def test_a_cancelled_requests_connection_is_not_used_again() -> None:
    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        if asked.body["seed"] == 1:
            await asyncio.sleep(0.2)
            writer.write(whole(event("late", 1)))
        else:
            writer.write(whole(event("mine", 5)))

    async def run() -> RequestRecord:
        async with serving(answer) as endpoint, Client(endpoint, ClientSettings()) as client:
            task = asyncio.create_task(client.send(Prompt("x", "chat", 8, False, 1)))
            await asyncio.sleep(0.1)
            task.cancel()
            await task
            return record_of(Ask("r1", CellKey("off", 1, 0), "chat", 8), await client.send(PROMPT))

    assert asyncio.run(run()).output_tokens == 5


def test_nobody_listens() -> None:
    port = closed_port()
    record = asyncio.run(ask(Endpoint(f"http://127.0.0.1:{port}", "m", "none", False)))
    assert record.outcome is Outcome.FAILED
    assert record.why is not None
    assert record.why.startswith(f"cannot connect to 127.0.0.1:{port}: ")


def test_no_such_host() -> None:
    record = asyncio.run(ask(Endpoint("http://no-such-host.invalid", "m", "none", False)))
    assert (record.outcome, record.why) == (Outcome.FAILED, "cannot resolve host 'no-such-host.invalid'")


def test_tls_is_verified(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a self-signed certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    subprocess.run([*make.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def run() -> RequestRecord:
        async with serving(says(GOOD), tls=context) as endpoint:
            return await ask(endpoint)

    record = asyncio.run(run())
    assert record.outcome is Outcome.FAILED
    assert record.why is not None
    assert record.why.startswith("TLS: ")
    assert "CERTIFICATE_VERIFY_FAILED" in record.why


@pytest.mark.parametrize(
    ("field", "flag"),
    [("continuous_usage_stats", "--no-continuous-usage"), ("ignore_eos", "no --ignore-eos")],
)
def test_a_rejected_field_names_the_flag_to_leave_out(field: str, flag: str) -> None:
    body = json.dumps({"error": {"message": f"Unrecognized request argument supplied: {field}"}}).encode()
    record = outcome(says(response(400, body)))
    assert record.outcome is Outcome.FAILED
    assert record.why is not None
    assert record.why.startswith(f"HTTP 400: the server does not take {field}; leave it out")
    assert flag in record.why


def test_bytes_one_at_a_time_and_crlf() -> None:
    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        body = (event("é🌟", 1) + event("b", 3) + DONE).replace(b"\n", b"\r\n")
        writer.write(STREAM)
        for at in range(len(body)):
            writer.write(chunk(body[at : at + 1]))
            await writer.drain()
        writer.write(chunk(b""))

    record = outcome(answer)
    assert (record.outcome, record.chunk_tokens) == (Outcome.DONE, (1, 2))


def test_a_server_that_never_stops_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without end and without a line end: it must fill neither the time nor the memory."""
    monkeypatch.setattr("loadgen.reads.MOST_BYTES", 1 << 20)
    sent = 0

    async def answer(writer: asyncio.StreamWriter, _: Asked) -> None:
        nonlocal sent
        writer.write(STREAM)
        while True:
            writer.write(chunk(b"A" * 65_536))
            await writer.drain()
            sent += 65_536

    record = outcome(answer)
    assert (record.outcome, record.why) == (
        Outcome.FAILED,
        "more than 1 MiB in one answer before any content",
    )
    assert sent < 64 << 20


def test_a_ten_megabyte_chunk() -> None:
    record = outcome(says(whole(event("x" * (10 << 20), 9), event("y", 10))))
    assert (record.outcome, record.chunk_tokens) == (Outcome.DONE, (9, 1))


def test_a_body_that_ends_with_the_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    record = outcome(says(head + event("a", 1) + event("b", 2) + DONE, hang_up=True))
    assert (record.outcome, record.output_tokens) == (Outcome.DONE, 2)


def test_reads_are_stamped_by_the_clock_that_is_given() -> None:
    ticks = iter(range(1, 1000))

    async def run() -> RequestRecord:
        async with (
            serving(says(GOOD)) as endpoint,
            Client(endpoint, ClientSettings(), clock=lambda: float(next(ticks))) as client,
        ):
            return record_of(Ask("r", CellKey("a", 1, 0), "chat", 8), await client.send(PROMPT, due_s=0.5))

    record = asyncio.run(run())
    assert record.due_s == 0.5
    assert record.first_token_s is not None
    assert record.first_token_s == int(record.first_token_s)
