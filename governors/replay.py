"""Observation traces: what a policy saw step by step, kept as JSON lines and replayed bit for bit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from governors.contract import DepthDecision, Governor, StepObservation, StepOutcome
from governors.trace_line import TraceError, line_of, step_of


@dataclass(frozen=True, slots=True, eq=False)
class TraceStep:
    """One step: what `decide` was given, and what `observe` was given after it (None = not recorded)."""

    observation: StepObservation
    outcome: StepOutcome | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ObservationTrace:
    """Steps in order. `partial`: the file ended within a line (a killed run), and that line is left out."""

    steps: tuple[TraceStep, ...]
    partial: bool = False


def read_trace(path: Path) -> ObservationTrace:
    """The trace in a JSONL file. TraceError names file, line, field and mend; OSError as open() raises it."""
    steps: list[TraceStep] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return ObservationTrace(tuple(steps), partial=True)
            try:
                steps.append(TraceStep(*step_of(line)))
            except TraceError as error:
                raise TraceError(f"{path}:{number}: {error}") from error
    return ObservationTrace(tuple(steps))


def trace_line(observation: StepObservation, outcome: StepOutcome | None = None) -> str:
    """One step as one line of JSON, line break included: what an engine appends as it goes."""
    plain = line_of(observation, outcome)
    return json.dumps(plain, separators=(",", ":"), allow_nan=False, default=int) + "\n"


def write_trace(path: Path, steps: Iterable[TraceStep]) -> None:
    """Write (and replace) a trace file; floats survive exactly."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(trace_line(step.observation, step.outcome) for step in steps)


def replay(trace: ObservationTrace | Sequence[TraceStep], governor: Governor) -> list[DepthDecision]:
    """What `governor` decides at each step, observing each recorded outcome.

    The recorded course stays: a decision unlike the one then taken changes nothing of what is seen next.
    """
    decisions = []
    for step in trace.steps if isinstance(trace, ObservationTrace) else trace:
        decisions.append(governor.decide(step.observation))
        if step.outcome is not None:
            governor.observe(step.outcome)
    return decisions
