"""`--engine`: the embedded engine, a server that already runs, or a vLLM to start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from depthgate.exits import UsageError
from depthgate.options import checked_url, is_url, json_object
from suites.model import EngineSpec, Suite
from suites.parse import load_suite
from suites.secrets import secret_path

KINDS = "embedded | URL | vllm | vllm:SUITE | vllm:{JSON}"
TINY_SUITE = "vllm-cpu-smoke"  # whose engine bare `vllm` takes: the tiny models of `make vllm-cpu`


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """At most one of the two is given; neither: the engine stays the suite's own."""

    url: str | None = None
    started: EngineSpec | None = None


def engine_choice(text: str | None) -> EngineChoice:
    """UsageError with the known forms. `vllm:SUITE`: the [engine] of that suite; JSON: model and options."""
    if text is None or text == "embedded":
        return EngineChoice()
    if is_url(text):
        return EngineChoice(url=checked_url("--engine", text))
    kind, _, what = text.partition(":")
    if kind != "vllm":
        raise UsageError(f"--engine {text}: not known; give {KINDS}, a URL such as http://127.0.0.1:8000")
    return EngineChoice(started=_vllm_of_json(what) if what.startswith("{") else _vllm_of_suite(what))


def _vllm_of_json(text: str) -> EngineSpec:
    given = json_object("--engine vllm:", text)
    if (where := secret_path(given, "--engine vllm")) is not None:
        raise UsageError(f"{where}: a secret; drop it, a server inherits the environment")
    model = given.pop("model", None)
    if not isinstance(model, str):
        raise UsageError('--engine vllm:{…}: no "model"; write {"model": "…", "drafter": "…", "k_max": 4}')
    return EngineSpec(kind="vllm", model=model, options=given)


def _vllm_of_suite(name: str) -> EngineSpec:
    spec = load_suite(Path(name) if name.endswith(".toml") else name or TINY_SUITE).engine
    if spec.kind != "vllm":
        raise UsageError(f"--engine vllm:{name}: that suite's engine is {spec.kind!r}; name one with vllm")
    return spec


def on_engine(suite: Suite, spec: EngineSpec, k_max: int | None = None) -> Suite:
    """The suite on an engine that is started for it. Its k_max goes along, since arms are written for it;

    `k_max` in its place holds for a server that serves several suites.
    """
    wanted = k_max or suite.engine.options.get("k_max")
    options = spec.options if wanted is None else {**spec.options, "k_max": wanted}
    return replace(suite, engine=replace(spec, options=options), drafter_class=None)
