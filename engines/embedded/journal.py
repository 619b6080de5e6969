"""StepRecords on disk as JSON lines, appended every half second: a kill -9 loses less than a second."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import orjson

from governors.telemetry import StepRecord

log = logging.getLogger(__name__)

FLUSH_S = 0.5


class StepJournal:
    """Appends in a thread of its own; `close` writes what is left. Without a path it keeps nothing.

    Raises OSError at once when the file cannot be opened. A later write error (disk full) is logged and
    counted in `errors`, and the engine goes on.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("ab", buffering=0) if path is not None else None
        self._rows: list[StepRecord] = []
        self._task: asyncio.Task[None] | None = None
        self.errors = 0

    def start(self) -> None:
        """Begins the regular flush; call it inside the event loop."""
        if self._file is not None:
            self._task = asyncio.create_task(self._flush_regularly())

    def append(self, record: StepRecord, lag_s: float) -> None:
        """Keeps the record of a delivered step, with how late its tokens left, for the next flush."""
        if self._file is not None:
            self._rows.append(replace(record, lag_s=lag_s))

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
        lines = [orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) for row in rows]
        try:
            self._file.write(b"\n".join(lines) + b"\n")
        except OSError as error:
            self.errors += 1
            log.error("step records lost: %s", error)
