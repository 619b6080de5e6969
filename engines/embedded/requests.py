"""What goes into the step machine and what comes out of it: requests, and the tokens of one step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from governors.telemetry import StepRecord


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request for the engine. `output_tokens`: it stops there (min of max_tokens and its own end of text).

    `acceptance_seed` makes the request's acceptance draws its own: they do not depend on who else runs.
    """

    prompt_tokens: int
    output_tokens: int
    traffic_class: str = "default"
    acceptance_seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """One step. `handles[i]` emitted `counts[i]` tokens (> 0) at `record.end_s`; `finished` ended with them.

    `handles` int64 (N,), `counts` int64 (N,), `finished` int64 (F,), a subset of handles.
    """

    record: StepRecord
    handles: NDArray[np.int64]
    counts: NDArray[np.int64]
    finished: NDArray[np.int64]
