"""One vLLM server as a process group of its own: started, waited for with progress, ended."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engines.contract import EngineError
from engines.vllm_log import doing, likely_cause
from governors.vllm_settings import PREFIX

GUARD = Path(__file__).with_name("process_guard.py")
GRACE_S = 20.0  # from SIGTERM to SIGKILL
DEATH_S = 5.0  # from a server that does not answer to the news of its end
POLL_S = 0.5
ENDED_POLL_S = 0.02
SAID_EVERY_S = 10.0
LOG_TAIL_BYTES = 256 * 1024

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Launch:
    """`environ` is added to this process's; `log` takes all that the server prints."""

    label: str
    command: Sequence[str]
    environ: Mapping[str, str]
    port: int
    log: Path
    start_s: float


class VllmServer:
    """`await start()`, then `url` answers until `await stop()`. It ends with this process, in any case.

    Bound to no event loop: one may start it and another end it.
    """

    def __init__(self, launch: Launch, say: Say) -> None:
        self._launch = launch
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{launch.port}"

    @property
    def dead(self) -> bool:
        """It was started and has ended."""
        return self._process is not None and self._process.poll() is not None

    async def alive(self) -> bool:
        """It answers. If not, a death that is not known of yet is waited for."""
        if await answers(f"{self.url}/health"):
            return True
        return not await self._ended_within(DEATH_S)

    async def start(self) -> None:
        """Until /health says 200. EngineError with the likely cause; a failed start leaves nothing."""
        launch = self._launch
        refuse_busy_port(launch.port)
        launch.log.parent.mkdir(parents=True, exist_ok=True)
        with launch.log.open("ab") as log:
            self._process = self._spawn(log)
        try:
            await self._healthy()
        except BaseException:
            await self.stop()
            raise

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """In a session of its own: Ctrl-C reaches this process alone."""
        return subprocess.Popen(
            [sys.executable, str(GUARD), str(GRACE_S), *self._launch.command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=server_environ(os.environ, self._launch.environ),
        )

    async def _healthy(self) -> None:
        begun_s = said_s = time.monotonic()
        self._say(f"vLLM {self._launch.label}: starting; log: {self._launch.log}")
        while not await answers(f"{self.url}/health"):
            now_s = time.monotonic()
            if self.dead:
                raise EngineError(f"vLLM {self._launch.label} did not start: {self.cause()}")
            if now_s - begun_s > self._launch.start_s:
                raise EngineError(
                    f"vLLM {self._launch.label}: not up after {self._launch.start_s:g} s, last at "
                    f"{doing(self._tail())!r}; raise start_s, or see {self._launch.log}"
                )
            if now_s - said_s >= SAID_EVERY_S:
                said_s = now_s
                self._say(f"vLLM {self._launch.label}: {now_s - begun_s:.0f} s: {doing(self._tail())}")
            await asyncio.sleep(POLL_S)
        self._say(f"vLLM {self._launch.label}: up after {time.monotonic() - begun_s:.0f} s")

    def cause(self) -> str:
        """Why it ended, in one line, and where its log is."""
        code = self._process.poll() if self._process is not None else None
        return f"{likely_cause(self._tail(), code)} (exit code {code}; log: {self._launch.log})"

    async def stop(self) -> None:
        """Closes the guard's stdin: it ends the server's group, exactly that, and then itself.

        Cancelled again while waiting it returns at once; the guard goes on by itself.
        """
        process = self._process
        if process is None or process.stdin is None:
            return
        with suppress(OSError):
            process.stdin.close()
        await self._ended_within(GRACE_S + 5)

    async def _ended_within(self, patience_s: float) -> bool:
        """Whether it ends in that time; asked often, since no loop watches the process."""
        for _ in range(round(patience_s / ENDED_POLL_S)):
            if self.dead:
                break
            await asyncio.sleep(ENDED_POLL_S)
        return self.dead

    def _tail(self) -> str:
        try:
            with self._launch.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""


def server_environ(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Without this process's own DEPTHGATE_ variables: the plugin takes any of them for a wish to govern."""
    return {name: value for name, value in own.items() if not name.startswith(PREFIX)} | dict(more)


async def answers(url: str) -> bool:
    """Whether a GET gets a 200 within two seconds."""
    import aiohttp

    try:
        timeout = aiohttp.ClientTimeout(total=2)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, OSError):
        return False


def free_port() -> int:
    """A port that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def refuse_busy_port(port: int) -> None:
    """EngineError when somebody listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise EngineError(
                f"port {port}: {error.strerror}; leave port out of engine.options, or name a free one"
            ) from None
