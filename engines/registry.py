"""The kinds of engine that a suite can name, one line each."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engines.contract import Engine, EngineError, SharedEngine
from suites.model import Arm, EngineSpec

if TYPE_CHECKING:
    from engines.vllm_servers import VllmServers


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """`build(spec, arm, alone)` gives the engine of one arm; raises EngineError when the spec lacks

    something. `alone`: no other arm is served at the spec's url.
    """

    summary: str
    build: Callable[[EngineSpec, Arm | None, bool], Engine]


def build_engine(spec: EngineSpec, arm: Arm | None = None, *, alone: bool = False) -> Engine:
    """The engine of a suite for one arm, whose own `url` wins. Raises EngineError, with the nearest kind."""
    if spec.kind not in ENGINES:
        near = difflib.get_close_matches(spec.kind, ENGINES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ENGINES)}"
        raise EngineError(f"engine kind {spec.kind!r}: no such engine; {hint}")
    return ENGINES[spec.kind].build(spec, arm, alone)


def build_engines(spec: EngineSpec, arms: Sequence[Arm]) -> dict[str, Engine]:
    """Arm name -> its engine, in the order of the arms. Raises as `build_engine` does."""
    alone = sum(arm.url is None for arm in arms) == 1
    return {arm.name: build_engine(spec, arm, alone=alone) for arm in arms}


@asynccontextmanager
async def open_engines(
    spec: EngineSpec, arms: Sequence[Arm], servers: VllmServers | None = None
) -> AsyncIterator[Mapping[str, Engine]]:
    """Arm name -> its engine, for a whole run. A shared engine is one for all; it ends with the block.

    `servers`: kept by the caller; a vLLM started here is one of them, and stays up.
    """
    from engines.vllm import VllmEngine

    first = build_engine(spec, arms[0])
    if servers is not None and isinstance(first, VllmEngine):
        first.borrow(servers)
    if isinstance(first, SharedEngine):
        async with first as engine:
            yield {arm.name: engine for arm in arms}
    else:
        yield build_engines(spec, arms)


def _embedded(spec: EngineSpec, arm: Arm | None, alone: bool) -> Engine:
    from engines.embedded.launcher import EmbeddedEngine

    if not spec.profile:
        raise EngineError('engine "embedded" has no profile; add profile = "h200-qwen3-4b-eagle" or another')
    return EmbeddedEngine(spec.profile, spec.options)


def _openai(spec: EngineSpec, arm: Arm | None, alone: bool) -> Engine:
    from engines.openai_http import OpenAIEngine

    url = (arm.url if arm is not None else None) or spec.url
    if not url:
        which = f"arm {arm.name!r}" if arm is not None else "the engine"
        raise EngineError(f'engine "openai": {which} has no url; add url = "http://HOST:PORT"')
    shared = arm is not None and arm.url is None
    return OpenAIEngine(url, spec.model, switch=None if shared and alone else shared)


def _vllm(spec: EngineSpec, arm: Arm | None, alone: bool) -> Engine:
    from engines.vllm import VllmEngine

    return VllmEngine(spec)


ENGINES: dict[str, EngineEntry] = {
    "embedded": EngineEntry(
        "a real scheduler on a cost model (a model, and says so); takes a profile", _embedded
    ),
    "vllm": EngineEntry("real vLLM, started here; takes model and options (docs/vllm.md)", _vllm),
    "openai": EngineEntry(
        "any OpenAI-compatible server that is already running; takes url and model", _openai
    ),
}
