"""What a governor saw, step by step, kept for `depthgate replay`."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from governors.contract import DepthDecision, Governor, StepObservation, StepOutcome
from governors.replay import trace_line

log = logging.getLogger(__name__)

FLUSH_S = 0.5


class RecordingGovernor:
    """Passes everything on to `governor` and writes each step to the file at `path` (which it replaces).

    Raises OSError at once when that cannot be opened. A line costs more than most decisions: for replays, not
    for timing. A later write error (disk full) ends the recording with a word in the log, and is no fault of
    the policy.

    A step is kept even when the policy raises in it. A kill -9 loses less than a second of a busy engine.
    """

    def __init__(self, governor: Governor, path: Path) -> None:
        self._governor = governor
        self._file: TextIO | None = path.open("w", encoding="utf-8")
        self._observation: StepObservation | None = None
        self._flushed_s = time.monotonic()

    def decide(self, observation: StepObservation) -> DepthDecision:
        self._observation = observation
        return self._governor.decide(observation)

    def observe(self, outcome: StepOutcome) -> None:
        if self._file is not None and self._observation is not None:
            line = trace_line(self._observation, outcome)
            try:
                self._write(self._file, line)
            except OSError as error:
                self._give_up(error)
        self._governor.observe(outcome)

    def close(self) -> None:
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as error:
            self._give_up(error)

    def _write(self, file: TextIO, line: str) -> None:
        file.write(line)
        if time.monotonic() - self._flushed_s > FLUSH_S:
            file.flush()
            self._flushed_s = time.monotonic()

    def _give_up(self, error: OSError) -> None:
        log.error("the trace ends here: %s", error)
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()
