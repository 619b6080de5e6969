"""How a vLLM server is told what to host: environment variables, or `--additional-config`; the first win."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from governors.entry import GovernorError
from governors.profile import Profile, ProfileError

PREFIX: Final = "DEPTHGATE_"
KEYS: Final = (
    "governor",
    "options",
    "profile",
    "steps",
    "control",
    "untried_vllm",
    "telemetry",
    "time_every",
    "unarmed_depth",
)
_SWITCH: Final = {"1": True, "true": True, "0": False, "false": False, "": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """`DEPTHGATE_<KEY>` or `--additional-config '{"depthgate": {"<key>": ...}}'`.

    governor       a name of the registry; None = vLLM's own rule, with telemetry
    options        of the governor; a JSON object in the environment
    profile        of governors.profile, read from a JSON file
    steps          StepRecords are appended to this file
    control        file through which the governor is switched in a running server
    untried_vllm   run inside a vLLM version that was never tried
    telemetry      time the worker and write `steps`; True by default
    time_every     of so many steps the worker times one; 1 by default, all of them
    unarmed_depth  let a policy change K in a server that has no schedule armed (an experiment: runner V1
                   obeys, and every K but num_speculative_tokens leaves the FULL graphs)
    """

    governor: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    profile: Profile | None = None
    steps: Path | None = None
    control: Path | None = None
    untried_vllm: bool = False
    telemetry: bool = True
    time_every: int = 1
    unarmed_depth: bool = False


def read_settings(environ: Mapping[str, str], additional_config: object = None) -> Settings:
    """GovernorError names the variable, its value and the mend."""
    given = _additional(additional_config) | {
        key: environ[PREFIX + key.upper()] for key in KEYS if PREFIX + key.upper() in environ
    }
    return Settings(
        governor=_text(given, "governor"),
        options=_options(given.get("options")),
        profile=read_profile(given.get("profile")),
        steps=_path(given, "steps"),
        control=_path(given, "control"),
        untried_vllm=read_switch(given, "untried_vllm", False),
        telemetry=read_switch(given, "telemetry", True),
        time_every=_count(given, "time_every"),
        unarmed_depth=read_switch(given, "unarmed_depth", False),
    )


def read_profile(path: object) -> Profile | None:
    """A Profile from the JSON or TOML file at `path`; None for none."""
    if path in (None, ""):
        return None
    try:
        text = Path(str(path)).read_text(encoding="utf-8")
        plain = tomllib.loads(text) if str(path).endswith(".toml") else json.loads(text)
        if not isinstance(plain, dict):
            raise ProfileError("it holds no object")
        return Profile.from_mapping(plain)
    except (OSError, ValueError) as error:
        raise GovernorError(
            f"profile={str(path)!r}: {error}; give the JSON file of a profile, or TOML"
        ) from error


def _additional(config: object) -> dict[str, object]:
    if not isinstance(config, Mapping) or "depthgate" not in config:
        return {}
    found = config["depthgate"]
    if not isinstance(found, Mapping):
        raise GovernorError(f"additional_config.depthgate={found!r}: give an object of {', '.join(KEYS)}")
    for key in found:
        if key not in KEYS:
            raise GovernorError(f"additional_config.depthgate.{key} is not known; known: {', '.join(KEYS)}")
    return dict(found)


def _text(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise GovernorError(f"{key}={value!r}: give a string")
    return value


def _count(given: Mapping[str, object], key: str) -> int:
    value = given.get(key, 1)
    text = str(value)
    if not text.isdecimal() or int(text) < 1:
        raise GovernorError(f"{key}={value!r}: give a whole number of steps, at least 1")
    return int(text)


def _path(given: Mapping[str, object], key: str) -> Path | None:
    text = _text(given, key)
    return None if text is None else Path(text)


def _options(value: object) -> Mapping[str, object]:
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise GovernorError(f"options={value!r}: {error}; give a JSON object") from error
    if not isinstance(value, Mapping):
        raise GovernorError(f"options={value!r}: give a JSON object of option to value")
    return dict(value)


def read_switch(given: Mapping[str, object], key: str, default: bool) -> bool:
    """true or false, 1 or 0; GovernorError for anything else."""
    value = given.get(key, default)
    if isinstance(value, bool):
        return value
    found = _SWITCH.get(str(value).lower())
    if found is None:
        raise GovernorError(f"{key}={value!r}: give 1 or 0")
    return found
