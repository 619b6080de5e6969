"""`depthgate load` as its users call it: extra fields, tokenizer check, TLS and key, ways to be ended."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from depthgate.__main__ import main
from loadgen.journal import read_requests
from loadgen.records import Outcome
from tests.depthgate.cli import depthgate, refusal
from tests.depthgate.ended_load import ANSWERED, GOOD, Hanging, load_process
from tests.loadgen.servers import Answer, Asked, serving
from tests.loadgen.test_retokenised import Letters, module

pytestmark = pytest.mark.http


@contextmanager
def in_thread(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a scripted server that runs beside this thread; answers under way end with the block."""
    begun: Future[tuple[str, Callable[[], object]]] = Future()

    async def serve() -> None:
        end, loop = asyncio.Event(), asyncio.get_running_loop()
        async with serving(answer, tls=tls) as endpoint:
            begun.set_result((endpoint.base_url, partial(loop.call_soon_threadsafe, end.set)))
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    url, end = begun.result(timeout=10)
    try:
        yield url
    finally:
        end()
        thread.join()


def load(url: str, *more: str | Path) -> int:
    arguments = ("load", "--url", url, "--model", "m", "--requests", "4", "--max-tokens", "3", *more)
    return main([str(argument) for argument in arguments])


def test_fields_of_the_body() -> None:
    seen: list[Asked] = []

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        seen.append(asked)
        await GOOD(writer, asked)

    with in_thread(answer) as url:
        assert load(url, "--body", '{"top_k": 5, "nested": {"a": [1]}}') == 0
    assert [(asked.body["top_k"], asked.body["nested"]) for asked in seen] == [(5, {"a": [1]})] * 4
    flags = ("load", "--url", "http://x", "--requests", "1", "--body")
    assert "--body: 'seed' is set by the client" in refusal(*flags, '{"seed": 1}')
    assert "--body [1]: a list; write an object" in refusal(*flags, "[1]")
    assert "--body: cannot be sent (Integer exceeds 64-bit range)" in refusal(*flags, f'{{"a": {2**64}}}')
    assert "--body: cannot be sent (str is not valid UTF-8" in refusal(*flags, '{"a": "\\ud800"}')
    assert "--model: cannot be sent" in refusal(*flags[:-1], "--model", "a\udcff")
    assert "--max-tokens: '10000001' must be a whole number" in refusal(
        *flags[:-1], "--max-tokens", "10000001"
    )


def test_a_tokenizer_that_disagrees_is_reported_and_usage_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", module("tokenizers", Tokenizer=Letters))
    out = tmp_path / "figures.json"
    with in_thread(GOOD) as url:
        assert load(url, "--tokenizer", "org/letters", "--json", out) == 0
    figures = json.loads(out.read_text())
    assert figures["output_tokens"] == 12
    assert figures["tokenizer"] == {
        "tokenizer": "org/letters",
        "answers": 4,
        "usage_tokens": 12,
        "text_tokens": 24,
        "differing": 4,
    }
    said = capsys.readouterr().out
    assert (
        "note: tokenizer org/letters: usage says 12 tokens in 4 answers, their text has 24 (+1e+02 %)" in said
    )
    assert "--tokenizer no/such: cannot be loaded" in refusal(
        "load", "--url", "http://x", "--requests", "1", "--tokenizer", "no/such"
    )


def test_tls_and_key_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=x -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*make.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    keys: list[str | None] = []

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        keys.append(asked.headers.get("authorization"))
        await GOOD(writer, asked)

    with in_thread(answer, context) as url:
        flags = ("load", "--url", url, "--model", "m", "--requests", "2", "--max-tokens", "3", "--json", "-")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
        refused = depthgate(*flags)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        done = depthgate(*flags)
    assert json.loads(refused.out)["completed"] == 0
    assert any("CERTIFICATE_VERIFY_FAILED" in reason for reason in json.loads(refused.out)["failures"])
    assert json.loads(done.out)["completed"] == 2, done.err
    assert keys == ["Bearer sk-of-the-test"] * 2
    assert "sk-of-the-test" not in done.out + done.err + refused.out + refused.err


def test_a_full_disk_is_the_machines_fault() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with in_thread(GOOD) as url:
        done = depthgate(
            "load",
            "--url",
            url,
            "--model",
            "m",
            "--requests",
            "4",
            "--max-tokens",
            "3",
            "--records",
            "/dev/full",
        )
    assert done.code == 4
    assert done.err.strip().endswith(
        "cannot write /dev/full: No space left on device; free space or give another folder"
    )
    assert "Traceback" not in done.err


STREAMS = 3


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_load_that_is_ended_loses_nothing_that_had_ended(
    tmp_path: Path, sent: signal.Signals, workers: str
) -> None:
    """Twenty answers, then all streams hang. Ended kindly, those under way are records too."""
    answer = Hanging()
    path = tmp_path / "records.jsonl"
    with in_thread(answer) as url:
        flags = ["--requests", "500", "--concurrency", str(STREAMS), "--workers", workers]
        process = load_process(url, *flags, "--records", str(path))
        wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") == ANSWERED)
        wait_for(lambda: answer.started == ANSWERED + STREAMS)
        process.send_signal(sent)
        out, err = process.communicate(timeout=30)
    assert process.returncode == (-9 if sent is signal.SIGKILL else 130), err
    assert "Traceback" not in out + err
    records, partial = read_requests(path)
    expected = {Outcome.DONE: ANSWERED} | ({} if sent is signal.SIGKILL else {Outcome.CANCELLED: STREAMS})
    assert Counter(record.outcome for record in records) == expected
    assert len({record.request for record in records}) == len(records)
    assert partial is None


def wait_for(met: Callable[[], bool], patience_s: float = 60.0) -> None:
    """Until `met()`; the time is a limit against hanging, nothing that is asserted."""
    until_s = time.monotonic() + patience_s
    while not met():
        assert time.monotonic() < until_s, "the load did not get that far"
        time.sleep(0.02)
