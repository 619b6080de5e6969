"""JSON back into frozen records, each field checked against its type hint: run folders are untrusted."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

Record = TypeVar("Record")
Reader = Callable[[Any], Any]


class DecodeError(ValueError):
    """The JSON value is no such record; the message names the field."""


def decode(kind: type[Record], value: object) -> Record:
    """A record of `kind`. Unknown fields are passed over (a newer version wrote them). Raises DecodeError."""
    if not isinstance(value, Mapping):
        raise DecodeError(f"{kind.__name__}: not an object")
    fields: dict[str, Any] = {}
    for name, (reader, needed) in _readers(cast(Hashable, kind)).items():
        if name not in value:
            if needed:
                raise DecodeError(f"{kind.__name__}.{name}: missing")
            continue
        try:
            fields[name] = reader(value[name])
        except (TypeError, ValueError) as error:
            raise DecodeError(f"{kind.__name__}.{name}: {error}") from None
    return kind(**fields)


@cache
def _readers(kind: Hashable) -> dict[str, tuple[Reader, bool]]:
    assert isinstance(kind, type)
    hints = typing.get_type_hints(kind)
    return {
        field.name: (_reader(hints[field.name]), field.default is dataclasses.MISSING)
        for field in dataclasses.fields(kind)
    }


def _reader(hint: Any) -> Reader:
    """A check and conversion for one type hint; only the kinds of hints that records have."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (other,) = (each for each in inner if each is not type(None))
        read = _reader(other)
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        return _tuple_reader(inner[0])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    return _SCALARS[hint]


def _tuple_reader(item: Any) -> Reader:
    read = _reader(item)

    def whole(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError(f"a list was expected, not {type(value).__name__}")
        if set(map(type, value)) <= {item}:  # the usual case, at the speed of C
            return tuple(value)
        return tuple(map(read, value))

    return whole


def _exactly(*kinds: type) -> Reader:
    """JSON's own type and nothing that only looks like it: True is no 1."""

    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise TypeError(f"{kinds[-1].__name__} was expected, not {type(value).__name__}")
        return value

    return check


def _float(value: Any) -> float:
    return float(_exactly(int, float)(value))


_SCALARS: dict[Any, Reader] = {int: _exactly(int), float: _float, str: _exactly(str), bool: _exactly(bool)}
