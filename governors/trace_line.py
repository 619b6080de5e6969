"""One step of a trace to and from plain JSON values; everything read is untrusted and checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from governors.contract import (
    AcceptanceHistory,
    DepthLimits,
    FloatArray,
    GraphMode,
    IntArray,
    StepDurations,
    StepObservation,
    StepOutcome,
)

Number = TypeVar("Number", np.int64, np.float64)
_LARGEST: Final = 2**62
_OBSERVED_NUMBERS = (
    "step",
    "now_s",
    "prefill_requests",
    "prefill_tokens",
    "requests_waiting",
    "kv_blocks_free",
    "kv_blocks_total",
    "depth_in_force",
)
_OBSERVED_ROWS = ("request_ids", "drafts_in_hand", "context_tokens")
_OUTCOME_NUMBERS = (
    "step",
    "now_s",
    "tokens_emitted",
    "depth_chosen",
    "depth_executed",
    "prefill_tokens",
)
_OUTCOME_ROWS = ("request_ids", "verified", "accepted")


class TraceError(ValueError):
    """A line of a trace cannot be read; the message names the field, the value and the mend."""


def line_of(observation: StepObservation, outcome: StepOutcome | None) -> dict[str, object]:
    """The JSON object of one step; NaN confidence is null."""
    seen = {name: getattr(observation, name) for name in _OBSERVED_NUMBERS}
    seen |= {name: getattr(observation, name).tolist() for name in _OBSERVED_ROWS}
    seen["confidence"] = [
        [None if math.isnan(value) else value for value in row] for row in observation.confidence.tolist()
    ]
    seen["reached"] = observation.history.reached.tolist()
    seen["accepted"] = observation.history.accepted.tolist()
    limits = observation.limits
    seen["limits"] = [limits.k_max, limits.max_num_seqs, list(limits.captured_tokens)]
    seen["durations"] = _plain_durations(observation.durations)
    return {"observation": seen, "outcome": None if outcome is None else _plain_outcome(outcome)}


def step_of(line: str | bytes) -> tuple[StepObservation, StepOutcome | None]:
    """The inverse of `line_of`. TraceError on anything that is not such an object."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"not JSON ({error}); record the trace again") from error
    step = _Fields("step", parsed)
    outcome = step.get("outcome")
    return _observation(_Fields("observation", step.get("observation"))), (
        None if outcome is None else _outcome(_Fields("outcome", outcome))
    )


def _plain_durations(durations: StepDurations | None) -> list[float | None] | None:
    return None if durations is None else [durations.target_s, durations.draft_s, durations.step_s]


def _plain_outcome(outcome: StepOutcome) -> dict[str, object]:
    plain = {name: getattr(outcome, name) for name in _OUTCOME_NUMBERS}
    plain |= {name: getattr(outcome, name).tolist() for name in _OUTCOME_ROWS}
    plain["durations"] = _plain_durations(outcome.durations)
    plain["graph_mode"] = outcome.graph_mode.value
    return plain


class _Fields:
    """A JSON object whose fields are read one by one, each checked."""

    def __init__(self, where: str, value: object) -> None:
        if not isinstance(value, Mapping):
            raise TraceError(f"{where} is {_shown(value)}, not an object; record the trace again")
        self._where = where
        self._fields = value

    def get(self, name: str) -> object:
        if name not in self._fields:
            raise TraceError(f"{self._where}.{name} is missing; record the trace again")
        return self._fields[name]

    def refuse(self, name: str, mend: str) -> TraceError:
        return TraceError(f"{self._where}.{name}={_shown(self._fields.get(name))}: {mend}")

    def count(self, name: str) -> int:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
            raise self.refuse(name, "give a whole number that is not negative")
        return value

    def second(self, name: str) -> float:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.refuse(name, "give seconds as a finite number")
        return float(value)

    def counts(self, name: str, shape: tuple[int, ...] | None = None) -> IntArray:
        """int64, not negative, of `shape` (None: one row of any length), read-only."""
        value = self.get(name)
        found = self._array(name, value, shape)
        if found.size and (found.dtype.kind != "i" or found.min() < 0):
            raise self.refuse(name, "give whole numbers that are not negative")
        return _frozen(found.astype(np.int64))

    def chances(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """float64 of `shape`, null read as NaN, read-only."""
        value = self.get(name)
        if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
            raise self.refuse(name, f"give rows of numbers or null, {shape}")
        rows = [[math.nan if item is None else item for item in row] for row in value]
        found = self._array(name, rows, shape)
        if found.size and found.dtype.kind not in "if":
            raise self.refuse(name, "give numbers or null")
        return _frozen(found.astype(np.float64))

    def durations(self, name: str) -> StepDurations | None:
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 3:
            raise self.refuse(name, "give [target_s, draft_s, step_s], null where not measured")
        for item in value:
            number = isinstance(item, int | float) and not isinstance(item, bool)
            if item is not None and not (number and math.isfinite(item)):
                raise self.refuse(name, "give seconds as finite numbers, or null")
        return StepDurations(*value)

    def limits(self, name: str) -> DepthLimits:
        value = self.get(name)
        mend = "give [k_max, max_num_seqs, [captured sizes]] as whole numbers"
        if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], list):
            raise self.refuse(name, mend)
        numbers = [*value[:2], *value[2]]
        if any(isinstance(item, bool) or not isinstance(item, int) or item < 0 for item in numbers):
            raise self.refuse(name, mend)
        return DepthLimits(value[0], value[1], tuple(value[2]))

    def _array(self, name: str, value: object, shape: tuple[int, ...] | None) -> NDArray[Any]:
        try:
            found = np.array(value)
        except (ValueError, OverflowError) as error:
            raise self.refuse(name, f"give rows of one length ({error})") from error
        if found.size == 0 and shape is not None and 0 in shape:
            return np.empty(shape)
        if not isinstance(value, list) or (found.ndim != 1 if shape is None else found.shape != shape):
            wanted = "one row" if shape is None else f"shape {shape}"
            raise self.refuse(name, f"give {wanted}; it has {found.shape}")
        return found


def _observation(fields: _Fields) -> StepObservation:
    limits = fields.limits("limits")
    request_ids = fields.counts("request_ids")
    row, table = (len(request_ids),), (len(request_ids), limits.k_max)
    drafts = fields.counts("drafts_in_hand", row)
    if drafts.size and drafts.max() > limits.k_max:
        raise fields.refuse("drafts_in_hand", f"give at most k_max={limits.k_max} drafts a request")
    return StepObservation(
        step=fields.count("step"),
        now_s=fields.second("now_s"),
        request_ids=request_ids,
        drafts_in_hand=drafts,
        confidence=fields.chances("confidence", table),
        context_tokens=fields.counts("context_tokens", row),
        history=AcceptanceHistory(fields.counts("reached", table), fields.counts("accepted", table)),
        prefill_requests=fields.count("prefill_requests"),
        prefill_tokens=fields.count("prefill_tokens"),
        requests_waiting=fields.count("requests_waiting"),
        kv_blocks_free=fields.count("kv_blocks_free"),
        kv_blocks_total=fields.count("kv_blocks_total"),
        depth_in_force=fields.count("depth_in_force"),
        limits=limits,
        durations=fields.durations("durations"),
    )


def _outcome(fields: _Fields) -> StepOutcome:
    request_ids = fields.counts("request_ids")
    row = (len(request_ids),)
    durations = fields.durations("durations")
    mode = fields.get("graph_mode")
    if mode not in list(GraphMode):
        raise fields.refuse("graph_mode", f"give one of {', '.join(GraphMode)}")
    return StepOutcome(
        step=fields.count("step"),
        now_s=fields.second("now_s"),
        request_ids=request_ids,
        verified=fields.counts("verified", row),
        accepted=fields.counts("accepted", row),
        tokens_emitted=fields.count("tokens_emitted"),
        durations=durations or StepDurations(None, None, None),
        graph_mode=GraphMode(str(mode)),
        depth_chosen=fields.count("depth_chosen"),
        depth_executed=fields.count("depth_executed"),
        prefill_tokens=fields.count("prefill_tokens"),
    )


def _frozen(array: NDArray[Number]) -> NDArray[Number]:
    array.flags.writeable = False
    return array


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
