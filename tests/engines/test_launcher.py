"""The embedded engine as a child process: started, described, and gone with its parent, whatever ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from engines.contract import Endpoint, EngineError, EngineRequest
from engines.embedded.launcher import EmbeddedEngine
from tests.engines.serving import PROFILE, chat, until

pytestmark = pytest.mark.http

ROOT = Path(__file__).parents[2]
FIXED = EngineRequest(arm="fixed 2", governor="fixed", options={"depth": 2})


async def answers(url: str) -> bool:
    """Whether somebody still listens there."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def gone(url: str) -> None:
    for _ in range(600):
        if not await answers(url):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{url} still answers")


async def complete(endpoint: Endpoint, text: str) -> str:
    url = f"{endpoint.base_url}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json=chat(text)) as response:
        body = await response.json()
        return str(body["choices"][0]["message"]["content"])


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Endpoint, Endpoint]]:
    off = EngineRequest(arm="off", governor="off")
    engine = EmbeddedEngine(PROFILE)
    async with engine.serve(off) as first, engine.serve(FIXED) as second:
        yield first, second


def test_two_servers_side_by_side_say_what_they_are_and_end_with_their_blocks(tmp_path: Path) -> None:
    async def run() -> None:
        async with two() as (first, second):
            assert first.base_url != second.base_url
            assert first.is_model
            assert first.profile == PROFILE
            assert first.engine == "embedded engine (model)"
            assert first.drafter_class == second.drafter_class == "eagle"
            assert await complete(first, "same") == await complete(second, "same")
        await gone(first.base_url)
        await gone(second.base_url)

    asyncio.run(run())


def test_options_of_the_request_win_and_files_get_their_folders(tmp_path: Path) -> None:
    steps, log = tmp_path / "steps" / "a.jsonl", tmp_path / "logs" / "a.log"
    request = EngineRequest("a", "off", engine_options={"refuse_above": 1}, steps_path=steps, log_path=log)

    async def run() -> None:
        engine = EmbeddedEngine(PROFILE, {"refuse_above": 50, "max_num_seqs": 3})
        async with engine.serve(request) as endpoint, aiohttp.ClientSession(endpoint.base_url) as session:
            async with session.get("/metrics") as response:
                assert "depthgate:max_num_seqs" in (text := await response.text())
            assert " 3\n" in text[text.index("depthgate:max_num_seqs{") :]
            calls = [session.post("/v1/chat/completions", json=chat()) for _ in range(4)]
            assert sorted(r.status for r in await asyncio.gather(*calls)) == [200, 429, 429, 429]

    asyncio.run(run())
    assert steps.read_bytes().count(b"\n") > 3
    assert log.exists()


@pytest.mark.parametrize(
    ("engine", "request_", "words"),
    [
        (EmbeddedEngine("no-such-profile"), FIXED, "no-such-profile"),
        (EmbeddedEngine(PROFILE), EngineRequest("x", "fixed", {"depth": -1}), "depth"),
        (EmbeddedEngine(PROFILE, {"penalties": {"x": 1}}), FIXED, "x"),
        (EmbeddedEngine(PROFILE, host="192.0.2.1"), FIXED, "cannot listen"),
    ],
)
def test_a_server_that_does_not_start_says_why(
    engine: EmbeddedEngine, request_: EngineRequest, words: str
) -> None:
    async def run() -> None:
        async with engine.serve(request_):
            pytest.fail("it started")

    with pytest.raises(EngineError, match="did not start") as caught:
        asyncio.run(run())
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_dies_under_the_block_is_an_error() -> None:
    async def run() -> None:
        async with EmbeddedEngine(PROFILE).serve(FIXED) as endpoint:
            os.kill(child_of(os.getpid()), signal.SIGKILL)
            await gone(endpoint.base_url)

    with pytest.raises(EngineError, match=r"died in mid-run \(killed by SIGKILL"):
        asyncio.run(run())


def test_a_cancelled_parent_stops_its_server() -> None:
    async def run() -> None:
        urls: list[str] = []

        async def hold() -> None:
            async with EmbeddedEngine(PROFILE).serve(FIXED) as endpoint:
                urls.append(endpoint.base_url)
                await asyncio.sleep(600)

        task = asyncio.create_task(hold())
        await until(lambda: urls)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone(urls[0])

    asyncio.run(run())


PARENT = """
import asyncio
from engines.contract import EngineRequest
from engines.embedded.launcher import EmbeddedEngine

async def main():
    async with EmbeddedEngine("%s").serve(EngineRequest("a", "off")) as endpoint:
        print(endpoint.base_url, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_server_goes_when_its_parent_is_killed(number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT % PROFILE],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    with parent:
        url = parent.stdout.readline().decode().strip()
        assert asyncio.run(answers(url))
        parent.send_signal(number)
        parent.wait(30)
    asyncio.run(gone(url))


def child_of(pid: int) -> int:
    """The one child process that is an embedded server."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            is_server = b"engines.embedded.server" in (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and is_server:
            return int(entry.name)
    pytest.skip("no /proc to find the child in")
