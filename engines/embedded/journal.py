"""StepRecords on disk as JSON lines, appended every half second: a kill -9 loses less than a second."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

import orjson

from governors.telemetry import StepRecord

log = logging.getLogger(__name__)

FLUSH_S = 0.5
_NAMES = tuple(field.name for field in fields(StepRecord))
_VALUES = attrgetter(*_NAMES)


class StepJournal:
    """Appends in a thread of its own; `close` writes what is left. Without a path it keeps nothing.

    Raises OSError at once when the file cannot be opened. A later write error (disk full) is logged and
    counted in `errors`, and the engine goes on.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("ab", buffering=0) if path is not None else None
        self._rows: list[tuple[StepRecord, float]] = []
        self._task: asyncio.Task[None] | None = None
        self.errors = 0

    def start(self) -> None:
        """Begins the regular flush; call it inside the event loop."""
        if self._file is not None:
            self._task = asyncio.create_task(self._flush_regularly())

    def append(self, record: StepRecord, lag_s: float) -> None:
        """Keeps the record of a delivered step, with how late its tokens left, for the next flush."""
        if self._file is not None:
            self._rows.append((record, lag_s))

    async def close(self) -> None:
        if self._file is None:
            return
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._write()
        self._file.close()

    async def _flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            await asyncio.shield(asyncio.to_thread(self._write))

    def _write(self) -> None:
        """Swaps the rows out first, so that the loop may append while a thread writes."""
        rows, self._rows = self._rows, []
        if not rows or self._file is None:
            return
        lines = [_line(record, lag_s) for record, lag_s in rows]
        try:
            self._file.write(b"\n".join(lines) + b"\n")
        except OSError as error:
            self.errors += 1
            log.error("step records lost: %s", error)


def _line(record: StepRecord, lag_s: float) -> bytes:
    """`dataclasses.replace` and orjson say the same at four times the cost."""
    row = dict(zip(_NAMES, _VALUES(record), strict=True))
    row["lag_s"] = lag_s
    return orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)
