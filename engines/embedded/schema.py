"""Strict reading of a TOML table into a frozen dataclass; what does not fit is a one-line error."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from governors.profile import ProfileError

T = typing.TypeVar("T")


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known one, or the whole list."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


def joined(where: str, key: object) -> str:
    """The dotted path of `key` under `where`; the root's path is empty."""
    return f"{where}.{key}" if where else str(key)


def read_table(cls: type[T], table: object, where: str) -> T:
    """`table` as a `cls`; `where` is the dotted path for errors. Raises ProfileError."""
    if not isinstance(table, Mapping):
        raise ProfileError(f"{where} = {table!r}: not a table; write it as [{where}]")
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise ProfileError(f"{joined(where, key)}: no such constant; {nearest(str(key), known)}")
    for name, field in known.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise ProfileError(f"{joined(where, name)}: missing; add it, with its source under [sources]")
    hints = typing.get_type_hints(cls)
    return cls(**{key: read_value(hints[key], value, joined(where, key)) for key, value in table.items()})


def read_value(hint: Any, value: object, where: str) -> Any:
    """`value` as the annotation `hint` wants it. Raises ProfileError."""
    if is_dataclass(hint):
        return read_table(typing.cast(type, hint), value, where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return (
            None if value is None else read_value(next(a for a in args if a is not type(None)), value, where)
        )
    if origin is tuple:
        return _tuple(args[0], value, where)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise ProfileError(f"{where} = {value!r}: not a table; write it as [{where}]")
        return {str(key): read_value(args[1], item, f"{where}.{key}") for key, item in value.items()}
    return _scalar(hint, value, where)


def _tuple(item_hint: Any, value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ProfileError(f"{where} = {value!r}: not a list; write it as [a, b, ...]")
    return tuple(read_value(item_hint, item, f"{where}[{index}]") for index, item in enumerate(value))


def _scalar(hint: type, value: object, where: str) -> object:
    if issubclass(hint, StrEnum):
        if not isinstance(value, str) or value not in list(hint):
            raise ProfileError(f"{where} = {value!r}: not one of {', '.join(hint)}")
        return hint(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ProfileError(f"{where}: a whole number beyond 64 bits; write a smaller one")
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ProfileError(f"{where} = {value}: not a finite number; write a number")
        return float(value)
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise ProfileError(f"{where} = {value!r}: not {_WORDS[hint]}; write {_WORDS[hint]}")


_WORDS: dict[type, str] = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}
