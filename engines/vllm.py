"""Real vLLM, started here: one server for all arms that a control file can switch, others get their own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from engines.contract import Endpoint, EngineError, EngineRequest
from engines.vllm_command import ServerKind, check_version, command, server_environment, server_kind
from engines.vllm_environment import VllmEnvironment, ask_environment
from engines.vllm_options import VllmOptions, read_options
from engines.vllm_server import Launch, Say, VllmServer, free_port
from engines.vllm_servers import Running, VllmServers
from engines.vllm_switch import FLUSH_S, GovernorSwitch
from suites.model import EngineSpec


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class VllmEngine:
    """An engines.contract.SharedEngine: `async with engine:` for a run, `engine.serve(request)` for each arm.

    Servers stay up from arm to arm and, unless `options.fresh`, from repeat to repeat, `options.servers` of
    them at once. All end with the outer block, or stay up where they were borrowed. One arm is served at a
    time.
    """

    def __init__(self, spec: EngineSpec, say: Say = _to_stderr) -> None:
        self.options: VllmOptions = read_options(spec)
        self._say = say
        self._environment: VllmEnvironment | None = None
        self._servers = VllmServers()
        self._borrowed = False
        self._entered = False
        self._one_arm = asyncio.Lock()

    def borrow(self, servers: VllmServers) -> None:
        """Use these from now on and leave them up. Call it before the outer block."""
        self._servers = servers
        self._borrowed = True

    @property
    def running(self) -> dict[ServerKind, Running]:
        """Servers that are up."""
        return self._servers.running

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered = False
        if not self._borrowed:
            await self._servers.close()

    async def check(self, requests: Sequence[EngineRequest]) -> None:
        """Everything that can be said before a server starts: EngineError or GovernorError."""
        kinds = [server_kind(request.governor, request.options, self.options) for request in requests]
        environment = await self.environment()
        for kind in kinds:
            check_version(environment, self.options, kind)

    async def environment(self) -> VllmEnvironment:
        """What is installed beside `options.python`; asked once."""
        if self._environment is None:
            options = self.options
            self._environment = await asyncio.to_thread(ask_environment, options.python, options.env)
        return self._environment

    @asynccontextmanager
    async def serve(self, request: EngineRequest) -> AsyncIterator[Endpoint]:
        """The arm's server, its governor in force. EngineError: no start, a governor refused, a death."""
        if not self._entered:
            raise RuntimeError("a VllmEngine keeps servers: enter it first")
        async with self._one_arm:
            await self.check([request])
            kind = server_kind(request.governor, request.options, self.options)
            running = await self._at_work(kind, request)
            await self._switch(running.switch, request)
            yield await self._endpoint(running.server)
            if not await running.server.alive():
                self.running.pop(kind, None)
                raise EngineError(f"vLLM died in mid-run: {running.server.cause()}")
            if request.steps_path is not None:
                await asyncio.sleep(FLUSH_S)  # what the plugin still holds belongs to this arm

    async def _switch(self, switch: GovernorSwitch, request: EngineRequest) -> None:
        if request.steps_path is not None:
            request.steps_path.parent.mkdir(parents=True, exist_ok=True)
        warnings = await switch.to(
            request.governor, request.options, self.options.governor_profile, request.steps_path
        )
        for warning in warnings:
            self._say(f"vLLM, arm {request.arm}: {warning}")

    async def _endpoint(self, server: VllmServer) -> Endpoint:
        return Endpoint(
            base_url=server.url,
            model=self.options.model,
            engine=(await self.environment()).engine,
            is_model=False,
            drafter_class=None if self.options.drafter is None else self.options.method,
        )

    async def _at_work(self, kind: ServerKind, request: EngineRequest) -> Running:
        found = self.running.pop(kind, None)
        if found is not None and (found.server.dead or (self.options.fresh and found.seed != request.seed)):
            await found.server.stop()
            found = None
        if found is None:
            await self._servers.make_room(self.options.servers)
        self.running[kind] = found or await self._started(kind, request)
        return self.running[kind]

    async def _started(self, kind: ServerKind, request: EngineRequest) -> Running:
        control = self._servers.new_control()
        environment = await self.environment()
        port = self.options.port or free_port()
        first = {"governor": request.governor, "options": dict(request.options)}
        logs = self._servers.room if request.log_path is None else request.log_path.parent
        launch = Launch(
            label=kind.label,
            command=command(kind, self.options, environment, port),
            environ=server_environment(self.options, str(control), first),
            port=port,
            log=logs / f"vllm.{kind.label}.log",
            start_s=self.options.start_s,
        )
        server = VllmServer(launch, self._say)
        await server.start()
        return Running(server, GovernorSwitch(control, lambda: server.dead), request.seed)
