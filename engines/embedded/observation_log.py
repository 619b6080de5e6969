"""What a governor saw, step by step, kept for `depthgate replay`."""

from __future__ import annotations

import time
from pathlib import Path

from governors.contract import DepthDecision, Governor, StepObservation, StepOutcome
from governors.replay import trace_line

FLUSH_S = 0.5


class RecordingGovernor:
    """Passes everything on to `governor` and writes each step to the file at `path` (which it replaces).

    Raises OSError at once when that cannot be opened. A line costs more than most decisions: for replays, not
    for timing.

    A step is kept even when the policy raises in it. A kill -9 loses less than a second of a busy engine.
    """

    def __init__(self, governor: Governor, path: Path) -> None:
        self._governor = governor
        self._file = path.open("w", encoding="utf-8")
        self._observation: StepObservation | None = None
        self._flushed_s = time.monotonic()

    def decide(self, observation: StepObservation) -> DepthDecision:
        self._observation = observation
        return self._governor.decide(observation)

    def observe(self, outcome: StepOutcome) -> None:
        if self._observation is not None:
            self._file.write(trace_line(self._observation, outcome))
            if time.monotonic() - self._flushed_s > FLUSH_S:
                self._file.flush()
                self._flushed_s = time.monotonic()
        self._governor.observe(outcome)

    def close(self) -> None:
        self._file.close()
