"""The seam between a run and an engine: something that serves one arm at an HTTP endpoint, then goes away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, runtime_checkable


class EngineError(Exception):
    """An engine could not be started or reached; the message names the mend."""


class EngineLost(EngineError):
    """The engine went away, or is used by others, in the middle of a run."""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One arm to serve. `governor`/`options` as in the registry; engine settings as in the suite."""

    arm: str
    governor: str
    options: Mapping[str, object] = field(default_factory=dict)
    engine_options: Mapping[str, object] = field(default_factory=dict)
    seed: int = 0
    steps_path: Path | None = None  # where the engine journals its StepRecords, if it can
    log_path: Path | None = None
    trace_path: Path | None = None  # where the engine keeps what its governor saw, for replay, if it can


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running server. `is_model`: its timing is computed, not measured; every report says so."""

    base_url: str  # without /v1
    model: str
    engine: str
    is_model: bool
    profile: str | None = None
    drafter_class: str | None = None


class Engine(Protocol):
    """`async with engine.serve(request) as endpoint:`; raises EngineError with the likely cause."""

    def serve(self, request: EngineRequest) -> AbstractAsyncContextManager[Endpoint]: ...


@runtime_checkable
class SharedEngine(Protocol):
    """An Engine that stays up from arm to arm: entered once for a run, it serves one arm after the other.

    `check`: what can be said of these arms before anything starts; raises EngineError.
    """

    def serve(self, request: EngineRequest) -> AbstractAsyncContextManager[Endpoint]: ...

    async def check(self, requests: Sequence[EngineRequest]) -> None: ...

    async def __aenter__(self) -> Engine: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
