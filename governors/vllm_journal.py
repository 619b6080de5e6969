"""StepRecords of a server on disk as JSON lines, written by a thread beside the engine's loop."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import IO, Final

import numpy as np

from governors.telemetry import StepRecord

FLUSH_S: Final = 0.25
ROWS_HELD: Final = 4_000  # some ten seconds of steps: a disk that hangs must not fill the memory

_FIELDS: Final = {field.name: field.default for field in fields(StepRecord)}

Row = Mapping[str, object]
MakeRow = Callable[[], Row]


class StepJournal:
    """`append` keeps a row for the next flush; `switch` goes on in another file; `close` writes what is left.

    A row is a mapping of StepRecord's fields (arrays where it has tuples). The engine survives any fault: the
    first write error ends the journal, is said once through `say`, and from then on `lost` counts.
    """

    def __init__(self, path: Path | None, say: Callable[[str], None], flush_s: float = FLUSH_S) -> None:
        self.lost = 0
        self._say = say
        self._rows: deque[tuple[IO[bytes], MakeRow]] = deque()
        self._file: IO[bytes] | None = None
        self._flush_s = flush_s
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self.path: Path | None = None
        self.switch(path)

    @property
    def open(self) -> bool:
        return self._file is not None

    def switch(self, path: Path | None) -> None:
        """Rows appended from now on go to `path` (None: nowhere). OSError when it cannot be opened."""
        file = None if path is None else path.open("ab", buffering=0)
        self._file, self.path = file, path
        if file is not None and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="depthgate-journal", daemon=True)
            self._thread.start()

    def append(self, make_row: MakeRow) -> None:
        """Called in the engine's loop: making, formatting and writing the row happen in the thread."""
        file = self._file
        if file is None or len(self._rows) >= ROWS_HELD:
            self.lost += self.path is not None
            return
        self._rows.append((file, make_row))

    def flush(self) -> None:
        """Writes everything appended so far, row by row: every write lets the engine's loop have the GIL."""
        with self._writing:
            while self._rows:
                file, make_row = self._rows.popleft()
                self._write(file, line_of(make_row()))

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.flush()
        self._file = None

    def _run(self) -> None:
        while not self._stop.wait(self._flush_s):
            self.flush()

    def _write(self, file: IO[bytes], line: str) -> None:
        if file is not self._file and self._file is None:
            self.lost += 1
            return
        text = line.encode()
        try:
            while text:
                text = text[file.write(text) :]
        except OSError as error:
            self.lost += 1
            if self._file is file:
                self._file = None
                self._say(f"step journal {self.path} ends here: {error}; the server goes on without it")


def line_of(row: Row) -> str:
    """One StepRecord as a JSON line; fields left at their default are left out."""
    kept = {name: row[name] for name, default in _FIELDS.items() if name in row and row[name] is not default}
    return json.dumps(kept, separators=(",", ":"), default=_plain) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)
