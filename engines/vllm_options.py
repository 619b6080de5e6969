"""What a suite (or `--engine vllm:FILE`) says of a vLLM server: typed, checked, paths found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engines.contract import EngineError
from suites.fields import Fields
from suites.model import EngineSpec

MOST_DEPTH = 1_000
MOST_SEQS = 100_000
# Flags that the launcher sets itself, since it and the arms rely on them; the field that says them instead.
OWN_FLAGS = {
    "--host": "nothing: servers listen on 127.0.0.1",
    "--port": "port = 8000",
    "--model": "engine.model",
    "--max-num-seqs": "max_num_seqs = 256",
    "--served-model-name": "nothing: the model goes by its own name",
    "--speculative-config": "drafter, method, k_max and speculative",
    "--scheduler-cls": "asynchronous = true or false",
    "--async-scheduling": "asynchronous = true",
    "--no-async-scheduling": "asynchronous = false",
}
PYTHON_VARIABLE = "DEPTHGATE_VLLM_PYTHON"
DEFAULT_PYTHON = ".venv-vllm/bin/python"
CHECKOUT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """`engine.model` and `engine.options` of a suite. Relative paths: from here, else from the checkout.

    python           interpreter of vLLM's environment; default: DEPTHGATE_VLLM_PYTHON, else .venv-vllm
    model, drafter   folders or hub names; a drafter is needed by every arm but no speculation
    method, k_max    of the speculative config; `speculative` holds whatever else belongs into it
    governor_profile JSON or TOML file of a governors.profile, for policies with a cost model
    max_num_seqs     what the server runs at once; an armed schedule has to fit in it
    share_armed      arms with a constant K run on the server with an armed schedule too. On a GPU arming
                     costs (FULL graphs become PIECEWISE on runner V1), so by default they get their own
    asynchronous     vLLM's async scheduling on or off; None = as vLLM thinks fit for the drafter
    fresh            every repeat starts its servers anew (docs/decisions/0005): minutes each
    servers          how many are kept up side by side; the one used longest ago makes room
    untried          run a vLLM that this version of depthgate was never tried with
    args, env        more flags and environment variables of the server, as they are
    nice             lower priority (1-19) of a server that shares its cores with the load generator
    start_s          patience for the start
    """

    model: str
    python: Path
    drafter: str | None = None
    method: str = "draft_model"
    k_max: int = 4
    speculative: Mapping[str, object] = field(default_factory=dict)
    governor_profile: Path | None = None
    max_num_seqs: int = 256
    share_armed: bool = False
    asynchronous: bool | None = None
    fresh: bool = False
    servers: int = 1
    untried: bool = False
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    nice: int = 0
    start_s: float = 900.0


def read_options(spec: EngineSpec) -> VllmOptions:
    """SuiteError or EngineError: one line with the field, its value and the mend."""
    if not spec.model:
        raise EngineError('engine "vllm" has no model; add model = "FOLDER or hub name"')
    fields = Fields(spec.options, 'engine "vllm"', "options")
    python = _python(
        fields.text_or_none("python")
    )  # first: without an environment nothing else is there either
    profile = fields.text_or_none("governor_profile")
    drafter = fields.text_or_none("drafter")
    options = VllmOptions(
        model=_model("model", spec.model),
        python=python,
        drafter=drafter and _model("options.drafter", drafter),
        method=fields.text_or("method", "draft_model"),
        k_max=fields.integer("k_max", minimum=1, default=4, maximum=MOST_DEPTH),
        speculative=_speculative(fields),
        governor_profile=None if profile is None else _file("governor_profile", profile),
        max_num_seqs=fields.integer("max_num_seqs", minimum=1, default=256, maximum=MOST_SEQS),
        share_armed=fields.flag("share_armed", default=False),
        asynchronous=None if fields.raw("asynchronous") is None else fields.flag("asynchronous", False),
        fresh=fields.flag("fresh", default=False),
        servers=fields.integer("servers", minimum=1, default=1),
        untried=fields.flag("untried", default=False),
        args=_arguments(fields),
        env=_environment(fields),
        port=fields.integer_or_none("port", minimum=1, maximum=65_535),
        nice=fields.integer("nice", minimum=0, default=0, maximum=19),
        start_s=fields.number("start_s", lambda x: x > 0, "must be above 0 seconds", 900.0),
    )
    fields.close()
    return options


def located(path: str) -> Path:
    """A relative path from where the command runs, else from the checkout; unchanged if in neither."""
    given = Path(path).expanduser()
    if given.is_absolute() or given.exists():
        return given.absolute()
    return CHECKOUT / given if (CHECKOUT / given).exists() else given


def _python(named: str | None) -> Path:
    """Never resolved: a virtual environment is known by the link's own place."""
    asked = named or os.environ.get(PYTHON_VARIABLE)
    path = located(asked or DEFAULT_PYTHON)
    if path.is_file() and os.access(path, os.X_OK):
        return path
    if asked is None:
        raise EngineError(
            f"no vLLM environment at {DEFAULT_PYTHON}: make one for CPU with `make vllm-cpu`, or name yours: "
            f'python = "…/bin/python" in engine.options, or {PYTHON_VARIABLE}'
        )
    raise EngineError(f"vLLM's python {asked!r}: no such interpreter; name the python of vLLM's environment")


def _model(field_name: str, name: str) -> str:
    """A folder with a config.json as an absolute path; a name as it is for the hub."""
    folder = located(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise EngineError(f"{field_name} {name!r}: no config.json in that folder; name a model's folder")
        return str(folder)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise EngineError(
            f"{field_name} {name!r}: no such folder; name a model's folder or a hub name ORG/NAME"
        )
    return name


def _file(field_name: str, name: str) -> Path:
    path = located(name)
    if not path.is_file():
        raise EngineError(f"{field_name} {name!r}: no such file; make one with depthgate profile or fit")
    return path


def _arguments(fields: Fields) -> tuple[str, ...]:
    words = [item for item in fields.items("args") or [] if isinstance(item, str)]
    if len(words) != len(fields.items("args") or []):
        raise fields.fault("args", 'must be a list of words in quotes: ["--dtype", "float32"]')
    for word in words:
        flag = word.partition("=")[0].replace("_", "-")
        if flag in OWN_FLAGS:
            raise fields.fault("args", f"{flag} is set by depthgate; remove it and use {OWN_FLAGS[flag]}")
    return tuple(words)


def _speculative(fields: Fields) -> dict[str, object]:
    """Without what an arm says: its K, and the schedule that arms it."""
    given = fields.options("speculative")
    for name in ("num_speculative_tokens", "num_speculative_tokens_per_batch_size"):
        if name in given:
            raise fields.fault("speculative", f"{name} is what the arms say; remove it and use k_max")
    return given


def _environment(fields: Fields) -> dict[str, str]:
    given = fields.options("env")
    if not all(isinstance(value, str) for value in given.values()):
        raise fields.fault("env", 'every value must be in quotes: { OMP_NUM_THREADS = "2" }')
    return {name: str(value) for name, value in given.items()}
