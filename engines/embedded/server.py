"""The embedded engine as a process: `python -m engines.embedded.server --profile NAME --governor NAME ...`.

When it listens it prints one line of JSON on stdout, and nothing more: {"event": "ready", "url": ..., ...}.
Everything else goes to stderr. Exit codes: 0 after SIGTERM (or when --watch-stdin saw its parent go), 130
after Ctrl-C, 2 for a usage error (one line), 1 when the engine itself failed.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.contract import EngineError

if TYPE_CHECKING:
    from aiohttp import web

    from engines.embedded.arm_switch import ArmSwitch
    from engines.embedded.assembly import Assembled
    from engines.embedded.journal import StepJournal
    from engines.embedded.profile import EngineProfile
    from engines.embedded.routes import EngineRoutes

SHUTDOWN_S = 0.2  # what an open connection gets to take its last bytes


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """What to serve, and where. `port` 0: a free one. `watch_stdin`: end with stdin (the parent died)."""

    profile: str
    governor: str = "off"
    options: Mapping[str, object] = field(default_factory=dict)
    engine_options: Mapping[str, object] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 0
    seed: int = 0
    steps_path: Path | None = None
    trace_path: Path | None = None
    watch_stdin: bool = False


def serve(settings: ServeSettings) -> int:
    """Serves until SIGTERM, Ctrl-C or the end of stdin; returns the exit code, 2 for a usage error."""
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(settings))
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


async def _serve(settings: ServeSettings) -> int:
    from aiohttp import web

    from engines.embedded.routes import EngineRoutes

    assembled, journal = _opened(settings)
    ending: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    routes = EngineRoutes(assembled, journal, settings.seed, crashed=lambda: _end(ending, 1))
    application = routes.application()
    _arm_switch(settings, assembled.profile.k_max, routes).add_to(application)
    runner = web.AppRunner(
        application, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_S
    )
    await runner.setup()
    try:
        url = await _listen(runner, settings.host, settings.port)
        _end_on_signals(ending)
        if settings.watch_stdin:
            _end_with_stdin(ending)
        journal.start()
        _settle_garbage()
        for warning in assembled.warnings:
            logging.getLogger(__name__).warning("%s", warning)
        _announce(url, routes.model, assembled.profile)
        return await ending
    finally:
        routes.stop()
        await journal.close()
        if assembled.recorder is not None:
            assembled.recorder.close()
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> str:
    from aiohttp import web

    if not 0 <= port <= 65535:  # uvloop would take it modulo 65536
        raise EngineError(f"--port {port}: must be 0 to 65535; 0 takes a free one")
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise EngineError(
                f"port {port} on {host} is in use; take another, or --port 0 for a free one"
            ) from error
        raise EngineError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; check --host and --port"
        ) from error
    bound = runner.addresses[0]
    return f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"


def _arm_switch(settings: ServeSettings, k_max: int, routes: EngineRoutes) -> ArmSwitch:
    """Switches keep profile, engine options and seed; a trace is of the arm that the server began with."""
    from engines.embedded.arm_switch import ArmSwitch
    from engines.embedded.assembly import assemble

    return ArmSwitch(
        settings.governor,
        settings.options,
        k_max,
        lambda governor, options: assemble(
            settings.profile, governor, options, settings.engine_options, settings.seed
        ),
        routes.install,
        lambda: routes.open_requests,
    )


def _opened(settings: ServeSettings) -> tuple[Assembled, StepJournal]:
    """The engine, and where its steps go."""
    from engines.embedded.assembly import assemble
    from engines.embedded.journal import StepJournal

    arm = (settings.profile, settings.governor, settings.options, settings.engine_options, settings.seed)
    try:
        return assemble(*arm, settings.trace_path), StepJournal(settings.steps_path)
    except OSError as error:
        raise EngineError(
            f"cannot write {error.filename} ({error.strerror}); name a file in a folder that exists"
        ) from error


def _end(ending: asyncio.Future[int], code: int) -> None:
    if not ending.done():
        ending.set_result(code)


def _end_on_signals(ending: asyncio.Future[int]) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, _end, ending, 0)
    loop.add_signal_handler(signal.SIGINT, _end, ending, 130)


def _end_with_stdin(ending: asyncio.Future[int]) -> None:
    """A pipe closes when its last writer dies, kill -9 included: portable, where PDEATHSIG is Linux's own."""
    loop = asyncio.get_running_loop()
    stdin = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(stdin, 4096):
            loop.remove_reader(stdin)
            _end(ending, 0)

    loop.add_reader(stdin, readable)


def _settle_garbage() -> None:
    """What is loaded now stays, and is not searched again: a full collection would cost a step's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _announce(url: str, model: str, profile: EngineProfile) -> None:
    ready = {
        "event": "ready",
        "url": url,
        "model": model,
        "is_model": True,
        "profile": profile.name,
        "drafter_class": profile.binding.drafter_class,
    }
    print(json.dumps(ready), flush=True)


def _loop_factory() -> Any:
    """uvloop where it is installed: a write costs a third of asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's docstring."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    try:
        settings = _settings(arguments)
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return serve(settings)


def _settings(arguments: Sequence[str] | None) -> ServeSettings:
    parser = argparse.ArgumentParser(
        prog="python -m engines.embedded.server",
        description="Serve the embedded engine (a model) over HTTP, with OpenAI's API.",
        epilog="example: python -m engines.embedded.server --profile h100-llama3.1-8b-eagle --governor fixed "
        "--options '{\"depth\": 3}' --port 8000",
    )
    parser.add_argument("--profile", required=True, help="name of a shipped profile, or a TOML file")
    parser.add_argument("--governor", default="off", help="name of a governor (default: off)")
    parser.add_argument("--options", default="{}", help="the governor's options, a JSON object")
    parser.add_argument("--engine-options", default="{}", help="overrides of the profile, a JSON object")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 (default): a free one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=Path, help="append StepRecords to this file, as JSON lines")
    parser.add_argument("--trace", type=Path, help="write what the governor saw to this file, for replay")
    parser.add_argument("--watch-stdin", action="store_true", help="end when stdin is closed")
    given = parser.parse_args(arguments)
    return ServeSettings(
        profile=given.profile,
        governor=given.governor,
        options=_json_object("--options", given.options),
        engine_options=_json_object("--engine-options", given.engine_options),
        host=given.host,
        port=given.port,
        seed=given.seed,
        steps_path=given.steps,
        trace_path=given.trace,
        watch_stdin=given.watch_stdin,
    )


def _json_object(flag: str, text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise EngineError(
            f"{flag} {text!r}: not JSON ({error}); write an object such as '{{\"k\": 2}}'"
        ) from error
    if not isinstance(value, dict):
        raise EngineError(f"{flag} {text!r}: must be a JSON object such as '{{\"k\": 2}}'")
    return value


if __name__ == "__main__":
    sys.exit(main())
