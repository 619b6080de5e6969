"""An engine profile: every constant of the embedded engine, each with its source, read strictly from TOML."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from engines.embedded.bounds import check_profile
from engines.embedded.constants import DrafterSpec, ForwardSpec, HardwareSpec, HostSpec
from engines.embedded.schema import nearest, read_table, read_value
from engines.embedded.specs import AcceptanceSpec, PenaltySpec, SchedulerSpec
from governors.profile import Binding, ProfileError
from suites.long_numbers import LongNumber, read_toml

__all__ = ["EngineProfile", "ProfileError", "apply_options", "load_profile", "profile_names"]

PROFILES = Path(__file__).parent / "profiles"
_OVERRIDABLE = ("acceptance", "drafter", "hardware", "host", "penalties", "scheduler")


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """All constants of one modelled engine. `sources`: dotted path of each constant -> where it comes from.

    reference_context_tokens  context a request, at which step costs are tabulated for governors
    """

    name: str
    summary: str
    k_max: int
    reference_context_tokens: int
    binding: Binding
    hardware: HardwareSpec
    host: HostSpec
    target: ForwardSpec
    drafter: DrafterSpec
    scheduler: SchedulerSpec
    acceptance: AcceptanceSpec
    penalties: PenaltySpec
    sources: Mapping[str, str] = field(default_factory=dict)


def profile_names() -> tuple[str, ...]:
    """The profiles that ship with the engine, sorted."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.toml")))


def load_profile(name_or_path: str | Path) -> EngineProfile:
    """A shipped profile by name, or any TOML file by path (ends in .toml). Raises ProfileError."""
    path = Path(name_or_path)
    if path.suffix != ".toml":
        if str(name_or_path) not in profile_names():
            hint = nearest(str(name_or_path), profile_names())
            raise ProfileError(f"profile {str(name_or_path)!r}: no such profile; {hint}")
        path = PROFILES / f"{name_or_path}.toml"
    try:
        return _parsed(path.read_text(encoding="utf-8"), f"profile {path.name}")
    except OSError as error:
        raise ProfileError(
            f"profile {path}: cannot be read ({error.strerror}); name one of {', '.join(profile_names())}"
        ) from error
    except LongNumber as error:
        raise ProfileError(f"profile {path}: {error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"profile {path}: not TOML ({error}); mend that line") from error


@lru_cache(maxsize=16)
def _parsed(text: str, where: str) -> EngineProfile:
    """A virtual run starts an engine a cell: the same text is checked once. Nobody writes to the result."""
    return _profile_of(read_toml(text), where)


def _profile_of(table: dict[str, object], where: str) -> EngineProfile:
    sources = dict(_leaves(table.pop("sources", {})))
    try:
        profile = read_table(EngineProfile, {**table, "sources": {}}, "")
        named = {key: read_value(str, value, f"sources.{key}") for key, value in sources.items()}
        _check_sources(table, named)
        check_profile(profile)
    except ProfileError as error:
        raise ProfileError(f"{where}: {error}") from None
    return dataclasses.replace(profile, sources=named)


def _leaves(table: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    if not isinstance(table, Mapping):
        yield prefix, table
        return
    for key, value in table.items():
        yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))


def _check_sources(table: Mapping[str, object], sources: Mapping[str, str]) -> None:
    constants = {path for path, value in _leaves(table) if not isinstance(value, str)}
    for path in sorted(constants - {path for path, text in sources.items() if text.strip()}):
        raise ProfileError(f"{path}: has no source; add it under [sources] with where the number comes from")
    for path in sorted(set(sources) - constants):
        raise ProfileError(f"sources.{path}: no such constant; {nearest(path, constants)}")


def apply_options(profile: EngineProfile, options: Mapping[str, object]) -> EngineProfile:
    """`profile` with overrides: `k_max`, a scheduler knob (`max_num_seqs`, `kv_blocks`, ...), or a table of
    constants to replace: `penalties`, `host`, `hardware`, `acceptance`, `scheduler`, `drafter` (with the
    `drafter_class` that it then is of). Raises ProfileError."""
    knobs = {knob.name for knob in dataclasses.fields(SchedulerSpec)}
    flat = {name: value for name, value in options.items() if name in knobs}
    tables: dict[str, object] = {"scheduler": flat} if flat else {}
    changed: dict[str, object] = {}
    binding = profile.binding
    for name, value in options.items():
        if name == "k_max":
            changed["k_max"] = read_value(int, value, "option k_max")
        elif name == "drafter_class":
            named = read_value(str, value, "option drafter_class")
            binding = dataclasses.replace(profile.binding, drafter_class=named)
        elif name in _OVERRIDABLE:
            tables[name] = {**flat, **_table(value, name)} if name == "scheduler" else _table(value, name)
        elif name not in knobs:
            hint = nearest(name, {"drafter_class", "k_max", *_OVERRIDABLE, *knobs})
            raise ProfileError(f"option {name!r}: no such engine option; {hint}")
    for name, table in tables.items():
        changed[name] = _overridden(getattr(profile, name), table, f"option {name}")
    said = [*_paths(changed, tables), *(["drafter_class"] if binding != profile.binding else [])]
    sources = {**profile.sources, **dict.fromkeys(said, "set by an option")}
    result = dataclasses.replace(profile, binding=binding, sources=sources, **changed)  # type: ignore[arg-type]
    check_profile(result)
    return result


def _table(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ProfileError(f"option {name} = {value!r}: not a table; write {name} = {{constant = value}}")
    return value


def _overridden(spec: object, table: object, where: str) -> object:
    before = {item.name: getattr(spec, item.name) for item in dataclasses.fields(spec)}  # type: ignore[arg-type]
    given = _table(table, where)
    for key in given:
        if key not in before:
            raise ProfileError(f"{where}.{key}: no such constant; {nearest(str(key), before)}")
    fresh = read_table(type(spec), {**{k: _plain(v) for k, v in before.items()}, **given}, where)
    return fresh


def _plain(value: object) -> object:
    return (
        dataclasses.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else value
    )


def _paths(changed: Mapping[str, object], tables: Mapping[str, object]) -> Iterator[str]:
    yield from (name for name in changed if name not in tables)
    for name, table in tables.items():
        yield from (path for path, _ in _leaves(table, name))
