"""Request records as Parquet: what a large run's journals are compacted into, and read back from.

Columns are RequestRecord's fields by their type hints: chunk times and tokens are lists, what may be unknown
is nullable. Every page carries a checksum. `pyarrow` is loaded only where a file is written or read.
"""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from loadgen.records import RequestRecord

Group = TypeVar("Group")

ROWS = 4096  # of a row group: what is held at once while writing and reading


class ParquetFault(Exception):
    """The file does not hold request records, or cannot be written; one line that says why."""


def write_parquet(path: Path, records: Iterable[RequestRecord]) -> None:
    """Writes through to the disk, ROWS records at a time. Raises ParquetFault, OSError."""
    pa, parquet = _pyarrow()
    schema = pa.schema([_field(pa, name, hint) for name, hint in _hints().items()])
    rows = iter(records)
    try:
        with (
            path.open("wb") as file,
            parquet.ParquetWriter(file, schema, **_encoding(pa, schema)) as writer,
        ):
            while batch := list(islice(rows, ROWS)):
                arrays = [
                    _array(pa, field, [getattr(record, field.name) for record in batch]) for field in schema
                ]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            writer.close()
            file.flush()
            os.fsync(file.fileno())
    except (ValueError, OverflowError, NotImplementedError) as error:  # Arrow's errors are among these
        raise ParquetFault(f"{path.name}: cannot be written ({_said(error)})") from error


def scan_parquet(path: Path) -> Iterator[list[RequestRecord]]:
    """Its records, a row group at a time. Raises ParquetFault for whatever is wrong with it."""
    return scan_groups(path, lambda table, hints: list(_rows(table, hints)))


def scan_groups(path: Path, read: Callable[[Any, dict[str, Any]], Group]) -> Iterator[Group]:
    """What `read` makes of each row group, an Arrow table, and the type hints of its columns.

    Raises ParquetFault for whatever is wrong with the file or, so `read` says, with a group.
    """
    pa, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            readers = _readers(pa, file.schema_arrow)
            for group in range(file.num_row_groups):
                yield read(file.read_row_group(group, columns=list(readers)), readers)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError) as error:
        raise ParquetFault(f"{path.name}: cannot be read ({_said(error)})") from None


def _hints() -> dict[str, Any]:
    return typing.get_type_hints(RequestRecord)


def _split(hint: Any) -> tuple[Any, bool]:
    """(hint without None, whether None was in it)."""
    inner = typing.get_args(hint)
    if isinstance(hint, types.UnionType):
        (other,) = (each for each in inner if each is not type(None))
        return other, True
    return hint, False


def _field(pa: Any, name: str, hint: Any) -> Any:
    plain, nullable = _split(hint)
    scalars = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    if typing.get_origin(plain) is tuple:
        kind = pa.list_(pa.field("element", scalars[typing.get_args(plain)[0]], nullable=False))
    else:
        kind = pa.string() if issubclass(plain, Enum) else scalars[plain]
    return pa.field(name, kind, nullable=nullable)


def _encoding(pa: Any, schema: Any) -> dict[str, Any]:
    """Floats by their bytes, which zstd then makes a third of; words by a dictionary."""
    words = [field.name for field in schema if pa.types.is_string(field.type)]
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    lists = [f"{field.name}.list.element" for field in schema if pa.types.is_list(field.type)]
    return {
        "compression": "zstd",
        "use_dictionary": words,
        "use_byte_stream_split": [*floats, *lists],
        "write_page_checksum": True,
    }


def _array(pa: Any, field: Any, values: Sequence[Any]) -> Any:
    """Lists are laid end to end here: Arrow's own way from tuples takes a hundred times as long."""
    if not pa.types.is_list(field.type):
        return pa.array(values, field.type)
    lengths = [0, *(len(value or ()) for value in values)]
    kind = np.dtype(field.type.value_type.to_pandas_dtype())
    flat = np.fromiter(chain.from_iterable(value or () for value in values), kind, count=sum(lengths))
    offsets = pa.array(np.cumsum(lengths), pa.int32())
    absent = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(offsets, pa.array(flat), type=field.type, mask=absent)


def _readers(pa: Any, schema: Any) -> dict[str, Any]:
    """Field -> hint, of what the file has; a field that it lacks must have a default.

    A column that is no field is refused: with one bit flipped in its name it was one.
    """
    found = {}
    unknown = set(schema.names) - {field.name for field in dataclasses.fields(RequestRecord)}
    if unknown:
        raise ValueError(f"column {min(unknown)!r} is not known: has a newer depthgate written it?")
    for field in dataclasses.fields(RequestRecord):
        hint = _hints()[field.name]
        if field.name in schema.names:
            wanted, there = _field(pa, field.name, hint), schema.field(field.name)
            if str(there.type) != str(wanted.type):
                raise ValueError(f"column {field.name} is {there.type}, not {wanted.type}")
            found[field.name] = hint
        elif field.default is dataclasses.MISSING:
            raise ValueError(f"no column {field.name}")
    return found


def _rows(table: Any, hints: dict[str, Any]) -> Iterator[RequestRecord]:
    columns = [
        _column(table.column(field.name), hints[field.name])
        if field.name in hints
        else repeat(field.default, table.num_rows)
        for field in dataclasses.fields(RequestRecord)
    ]
    return (RequestRecord(*row) for row in zip(*columns, strict=True))


def checked(column: Any, hint: Any) -> Any:
    """The column in one Arrow array. Raises ValueError when a value is missing where there must be one."""
    if column.null_count and not _split(hint)[1]:
        raise ValueError("a value is missing where there must be one")
    return column.combine_chunks()


def _column(column: Any, hint: Any) -> Sequence[Any]:
    plain, _ = _split(hint)
    array = checked(column, hint)
    if typing.get_origin(plain) is tuple:
        return _lists(array)
    values: list[Any] = array.to_pylist()
    if issubclass(plain, Enum):
        known = {str(member.value): member for member in plain}
        return [known[value] for value in values]
    return values


def _lists(array: Any) -> list[tuple[Any, ...] | None]:
    """Cut out of the flat values: one by one they would take ten times as long."""
    flat = array.flatten()
    if flat.null_count:
        raise ValueError("a list has a hole")
    values = flat.to_numpy(zero_copy_only=False).tolist()
    found: list[tuple[Any, ...] | None] = []
    start = 0
    for length in array.value_lengths().to_pylist():
        end = start + (length or 0)
        found.append(None if length is None else tuple(values[start:end]))
        start = end
    return found


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ParquetFault("pyarrow is not installed: pip install 'depthgate[bench]'") from None
    return pyarrow, pyarrow.parquet


def _said(error: BaseException) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 120 else words[:119] + "…"
