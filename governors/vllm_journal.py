"""StepRecords of a server on disk as JSON lines: made in the engine's loop, written by a thread beside it.

A row is made where its step ends: a thread that made it would ask the loop for the GIL once a row, and on a
launch-bound engine each hand-over may cost more than the row (docs/decisions/0010).
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import IO, Final

import numpy as np

from governors.telemetry import StepRecord

FLUSH_S: Final = 0.25
ROWS_HELD: Final = 4_000  # some ten seconds of steps: a disk that hangs must not fill the memory

_DEFAULTS: Final = {field.name: field.default for field in fields(StepRecord) if field.default is not MISSING}

Row = Mapping[str, object]
MakeRow = Callable[[], Row]


@dataclass(slots=True, eq=False)
class _Target:
    path: Path
    file: IO[bytes]
    broken: bool = False


class StepJournal:
    """`append` keeps a row for the next flush; `switch` goes on in another file; `close` writes what is left.

    A row is a mapping of StepRecord's fields (arrays where it has tuples). The engine survives any fault: the
    first write error ends that file, is said once through `say`, and from then on `lost` counts.
    """

    def __init__(self, path: Path | None, say: Callable[[str], None], flush_s: float = FLUSH_S) -> None:
        self.lost = 0
        self._say = say
        self._lines: deque[tuple[_Target, bytes | None]] = deque()  # None: that file is done
        self._target: _Target | None = None
        self._flush_s = flush_s
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self.switch(path)

    @property
    def open(self) -> bool:
        """Whether a row appended now will be written."""
        return self._target is not None and not self._target.broken

    def switch(self, path: Path | None) -> None:
        """Rows appended from now on go to `path` (None: nowhere). OSError when it cannot be opened."""
        before = self._target
        self._target = None if path is None else _Target(path, path.open("ab", buffering=0))
        if before is not None:
            self._lines.append((before, None))
        if self._target is not None and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="depthgate-journal", daemon=True)
            self._thread.start()

    def append(self, make_row: MakeRow) -> None:
        """Called in the engine's loop; never raises. Writing happens in the thread."""
        target = self._target
        if target is None:
            return
        if target.broken or len(self._lines) >= ROWS_HELD:
            self.lost += 1
            return
        try:
            self._lines.append((target, line_of(make_row())))
        except Exception as error:  # a row that cannot be made
            self._break(target, error)

    def flush(self) -> None:
        """Writes everything appended so far, all lines of a file at once."""
        with self._writing:
            while self._lines:
                target, line = self._lines.popleft()
                if line is None:
                    target.file.close()
                    continue
                lines = [line]
                while self._lines and self._lines[0][0] is target and self._lines[0][1] is not None:
                    lines.append(self._lines.popleft()[1] or b"")
                self._write(target, lines)

    def close(self) -> None:
        """Ends the thread; safe to call twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.switch(None)
        self.flush()

    def _run(self) -> None:
        while not self._stop.wait(self._flush_s):
            self.flush()

    def _write(self, target: _Target, lines: list[bytes]) -> None:
        if target.broken:
            self.lost += len(lines)
            return
        text = b"".join(lines)
        try:
            while text:
                text = text[target.file.write(text) :]
        except Exception as error:  # a full disk: the thread must live
            self._break(target, error)
            self.lost += text.count(b"\n") - 1

    def _break(self, target: _Target, error: Exception) -> None:
        target.broken = True
        self.lost += 1
        self._say(f"step journal {target.path} ends here: {error}; the server goes on without it")


def line_of(row: Row) -> bytes:
    """One StepRecord as a JSON line; fields left at their default are left out."""
    told = dict(row)
    for name, default in _DEFAULTS.items():
        if told.get(name, default) is default:
            told.pop(name, None)
    return _encode(told) + b"\n"


def _encoder() -> Callable[[object], bytes]:
    """vLLM brings msgspec: 13 us for a row of 256 requests, where json takes 219, in which it holds the GIL
    that the engine's loop waits for."""
    try:
        from msgspec.json import Encoder
    except ImportError:
        return with_json
    encode: Callable[[object], bytes] = Encoder(enc_hook=_plain).encode
    return encode


def with_json(row: object) -> bytes:
    """The same line by the standard library, for an environment without msgspec."""
    return json.dumps(row, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)


_encode: Final = _encoder()
