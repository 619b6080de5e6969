"""The server as a process: its ready line, its end, and what it leaves on disk."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engines.embedded.server import main
from tests.engines.serving import PROFILE, chat

pytestmark = pytest.mark.http

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "engines.embedded.server", "--profile", PROFILE, *flags]


@contextmanager
def process(
    *flags: str, stdin: int | None = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    server = subprocess.Popen(
        command(*flags), cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        yield server, json.loads(server.stdout.readline())
    finally:
        server.kill()
        server.communicate()


def ask(url: str, max_tokens: int = 8) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    body = json.dumps(chat(max_tokens=max_tokens)).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with opener.open(request, timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())  # type: ignore[no-any-return]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_ends_on_a_signal_with_its_steps_on_disk(tmp_path: Path, number: signal.Signals, code: int) -> None:
    steps = tmp_path / "steps.jsonl"
    with process("--governor", "fixed", "--options", '{"depth": 2}', "--steps", str(steps)) as (
        server,
        ready,
    ):
        assert ready["event"] == "ready"
        assert ready["is_model"] is True
        assert ready["profile"] == PROFILE
        tokens = ask(ready["url"])["usage"]["completion_tokens"]
        server.send_signal(number)
        assert server.wait(PATIENCE_S) == code
        assert server.stderr is not None
        assert b"Traceback" not in server.stderr.read()
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    assert sum(row["emitted"] for row in rows) == tokens == 8


def test_ends_on_sigterm_under_a_stream_which_is_then_not_taken_for_done(tmp_path: Path) -> None:
    with process() as (server, ready):
        host, port = ready["url"].removeprefix("http://").split(":")
        body = json.dumps(chat(max_tokens=4000, stream=True)).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(head.encode() + body)
            got = connection.recv(65536)
            assert got.startswith(b"HTTP/1.1 200")
            server.terminate()
            while piece := connection.recv(65536):
                got += piece
        assert server.wait(PATIENCE_S) == 0
    assert b"[DONE]" not in got
    assert b"shutting down" in got


def test_a_killed_server_leaves_whole_lines(tmp_path: Path) -> None:
    steps = tmp_path / "steps.jsonl"
    with process("--steps", str(steps)) as (server, ready):
        ask(ready["url"], max_tokens=400)  # longer than two flushes: 1.4 s of the model
        server.kill()
        server.wait(PATIENCE_S)
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    assert len(rows) > 50
    assert [row["step"] for row in rows] == list(range(len(rows)))


def test_ends_when_stdin_closes() -> None:
    with process("--watch-stdin", stdin=subprocess.PIPE) as (server, ready):
        ask(ready["url"])
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait(PATIENCE_S) == 0
        server.stdin = None


def test_a_port_in_use_is_one_line_and_exit_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            command("--port", str(port)), cwd=ROOT, capture_output=True, timeout=PATIENCE_S, text=True
        )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: port {port} on 127.0.0.1 is in use")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--governor", "fixd"], "did you mean 'fixed'"),
        (["--governor", "fixed", "--options", '{"depth": 99}'], "99"),
        (["--options", "depth=2"], "not JSON"),
        (["--options", "[]"], "must be a JSON object"),
        (["--engine-options", '{"max_num_seq": 3}'], "did you mean 'max_num_seqs'"),
        (["--engine-options", '{"refuse_above": 0}'], "refuse_above"),
        (["--profile", "h200-qwen3-4b-eagl"], "did you mean 'h200-qwen3-4b-eagle'"),
        (["--port", "70000"], "0 to 65535"),
        (["--steps", "/nowhere/steps.jsonl"], "cannot write /nowhere/steps.jsonl"),
        (["--trace", "/nowhere/trace.jsonl"], "cannot write /nowhere/trace.jsonl"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--profile", PROFILE, *flags]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) == 1
    assert words in said.err
