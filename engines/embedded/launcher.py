"""The embedded engine as a process of its own for each arm: started, waited for, stopped with its group."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from engines.contract import Endpoint, EngineError, EngineRequest

ENGINE_NAME = "embedded engine (model)"
START_S = 60.0
STOP_S = 2.0
_CHECKOUT = Path(__file__).parents[2]
_TAIL_LINES = 12


class EmbeddedEngine:
    """An engines.contract.Engine. `options` of the engine come first, those of the request win."""

    def __init__(
        self, profile: str, options: Mapping[str, object] | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._profile = profile
        self._options = dict(options or {})
        self._host = host

    @asynccontextmanager
    async def serve(self, request: EngineRequest) -> AsyncIterator[Endpoint]:
        """A server on a free port, until the block ends. Raises EngineError, with the end of its log, when it
        does not start, and when it has died under the block."""
        with _open_log(request.log_path) as log:
            process = await self._start(request, log)
            try:
                yield await _ready(process, log)
            finally:
                code = await _stop(process)
            if code:
                raise EngineError(f"the embedded engine died in mid-run ({_ending(process)}): {_tail(log)}")

    async def _start(self, request: EngineRequest, log: IO[bytes]) -> asyncio.subprocess.Process:
        """In a session of its own: Ctrl-C reaches this process alone, the group is ours to end. The pipe on
        its stdin closes when this process dies, however it dies; then the server ends too."""
        paths = [str(_CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return await asyncio.create_subprocess_exec(
            *self._command(request),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    def _command(self, request: EngineRequest) -> list[str]:
        settings = {
            "--profile": self._profile,
            "--governor": request.governor,
            "--options": json.dumps(dict(request.options)),
            "--engine-options": json.dumps({**self._options, **request.engine_options}),
            "--host": self._host,
            "--port": "0",
            "--seed": str(request.seed),
        }
        if request.steps_path is not None:
            request.steps_path.parent.mkdir(parents=True, exist_ok=True)
            settings["--steps"] = str(request.steps_path)
        if request.trace_path is not None:
            request.trace_path.parent.mkdir(parents=True, exist_ok=True)
            settings["--trace"] = str(request.trace_path)
        flags = [f"{name}={value}" for name, value in settings.items()]
        return [sys.executable, "-m", "engines.embedded.server", "--watch-stdin", *flags]


def _open_log(path: Path | None) -> IO[bytes]:
    if path is None:
        return tempfile.TemporaryFile()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w+b")


async def _ready(process: asyncio.subprocess.Process, log: IO[bytes]) -> Endpoint:
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
    except TimeoutError:
        raise EngineError(
            f"the embedded engine did not listen in {START_S:g} s; is the machine overloaded? {_tail(log)}"
        ) from None
    if not line:
        await process.wait()
        raise EngineError(f"the embedded engine did not start ({_ending(process)}): {_tail(log)}")
    ready = json.loads(line)
    return Endpoint(
        base_url=ready["url"],
        model=ready["model"],
        engine=ENGINE_NAME,
        is_model=True,
        profile=ready["profile"],
        drafter_class=ready["drafter_class"],
    )


async def _stop(process: asyncio.subprocess.Process) -> int | None:
    """SIGTERM to the group; SIGKILL when that is not enough, or when we are cancelled again while waiting.

    Returns the exit code, None when it took SIGKILL. A sound server ends on SIGTERM with 0, so any other code
    is of a death before (asyncio may learn of that late: `returncode` alone would miss it).
    """
    try:
        if process.returncode is None:
            _signal_group(process, signal.SIGTERM)
        return await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            _signal_group(process, signal.SIGKILL)
            await process.wait()


def _signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Only while the child is not reaped: its pid, and so the group's, cannot be another's yet."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _ending(process: asyncio.subprocess.Process) -> str:
    code = process.returncode
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def _tail(log: IO[bytes]) -> str:
    """The likely cause: the last line that begins with `error:`, else the end of the log, on one line."""
    log.flush()
    log.seek(0)
    lines = log.read()[-16_384:].decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        if line.startswith("error: "):
            return line.removeprefix("error: ")
    return " | ".join(lines[-_TAIL_LINES:]) or "its log is empty"
