"""Append-only JSONL: written as it happens, read back whatever happened.

Every record is one write of one whole line: a killed process loses nothing that it had appended. A reader
keeps every whole line and says in words what it could not read; it never raises for a file's content.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self, TypeVar

import orjson

from governors.telemetry import StepRecord
from loadgen.columns import RequestColumns, request_columns
from loadgen.decode import DecodeError, decode
from loadgen.parquet import ROWS, ParquetFault, scan_parquet
from loadgen.parquet_columns import scan_columns
from loadgen.records import CellRecord, RequestRecord

Record = TypeVar("Record")


class JournalError(Exception):
    """Records cannot be written any more; what was written stays. The message names the file and the mend."""


class Dataclass(Protocol):
    """A frozen record; orjson writes dataclasses as they are."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Journal:
    """`with Journal(path) as journal: journal.append(record)`; makes the folder, appends to an old file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self._end_cut_line()
        except OSError as error:
            raise self._error(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            with suppress(JournalError):  # the error on its way out is the one to hear about
                self.close()

    def append(self, record: Dataclass) -> None:
        """One line. Raises JournalError when it cannot be written whole (disk full, gone, read-only)."""
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            raise self._error(error) from error

    def close(self) -> None:
        """Flushes to the disk itself; safe to call twice."""
        if self._file < 0:
            return
        file, self._file = self._file, -1
        try:
            os.fsync(file)
        except OSError as error:
            raise self._error(error) from error
        finally:
            os.close(file)

    def _end_cut_line(self) -> None:
        """A run that goes on after a crash must not glue its first record to a line that was cut off."""
        if self.path.stat().st_size and _last_byte(self.path) != b"\n":
            os.write(self._file, b"\n")

    def _error(self, error: OSError) -> JournalError:
        reason = error.strerror or str(error)
        return JournalError(f"cannot write {self.path}: {reason}; free space or give another folder")


def read_requests(path: Path) -> tuple[list[RequestRecord], str | None]:
    """(records, what could not be read or None). OSError when there is no such file.

    `path`: a journal, or the Parquet file into which loadgen.compaction made one.
    """
    if path.suffix == ".parquet":
        return _read_parquet(path)
    return _read(path, RequestRecord)


def read_columns(path: Path, keep: Callable[[RequestColumns], None]) -> str | None:
    """As `read_requests`, a few thousand at a time as columns, which go to `keep` in their order."""
    try:
        if path.suffix != ".parquet":
            return _fold(path, RequestRecord, lambda records: keep(request_columns(records)))
        for columns in scan_columns(path):
            keep(columns)
    except ParquetFault as fault:
        return str(fault)
    return None


def scan_requests(journal: Path) -> Iterator[RequestRecord]:
    """The records of a journal, one after the other. Raises ParquetFault at a line that is none."""
    with journal.open("rb") as file:
        for number, line in enumerate(file, start=1):
            found: list[RequestRecord] = []
            if line != b"\n" and not _keep(line, RequestRecord, found):
                raise ParquetFault(f"{journal.name}: line {number} cannot be read")
            yield from found


def read_cells(path: Path) -> tuple[list[CellRecord], str | None]:
    """As `read_requests`."""
    return _read(path, CellRecord)


def read_steps(path: Path) -> tuple[list[StepRecord], str | None]:
    """As `read_requests`."""
    return _read(path, StepRecord)


def read_step_parts(path: Path, keep: Callable[[list[StepRecord]], None]) -> str | None:
    """As `read_columns`: a few thousand step records at a time."""
    return _fold(path, StepRecord, keep)


def _read_parquet(path: Path) -> tuple[list[RequestRecord], str | None]:
    records: list[RequestRecord] = []
    try:
        for group in scan_parquet(path):
            records += group
    except ParquetFault as fault:
        return records, str(fault)
    return records, None


def _read(path: Path, kind: type[Record]) -> tuple[list[Record], str | None]:
    found: list[Record] = []
    return found, _fold(path, kind, found.extend)


def _fold(path: Path, kind: type[Record], keep: Callable[[list[Record]], None]) -> str | None:
    """Hands over every whole line's record, ROWS at a time; returns what could not be read."""
    records: list[Record] = []
    count = bad = 0
    cut = False
    with path.open("rb") as file:
        for line in file:
            kept = line == b"\n" or _keep(line, kind, records)
            if line.endswith(b"\n"):
                count += 1
                bad += not kept
            else:
                cut = not kept  # an object that closes is whole, newline or not
            if len(records) >= ROWS:
                keep(records)
                records = []
    keep(records)
    faults = []
    if bad:
        faults.append(f"{bad} of {count} lines cannot be read")
    if cut:
        faults.append("its last line is cut off")
    return f"{path.name}: {' and '.join(faults)}" if faults else None


def _keep(line: bytes, kind: type[Record], records: list[Record]) -> bool:
    try:
        records.append(decode(kind, orjson.loads(line)))
    except (orjson.JSONDecodeError, DecodeError):
        return False
    return True


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)
