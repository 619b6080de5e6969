"""hysteresis_schedule: vLLM's schedule with a dead band around each threshold and a dwell time; ours.

A plain schedule changes K whenever the load crosses a threshold; a burst of prompts is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from governors.contract import DepthDecision, StepObservation, StepOutcome
from governors.entry import GovernorContext, GovernorEntry, Options
from governors.load import COUNT_OPTION, LoadCount, load_count
from governors.options import OptionReader
from governors.reasons import reason_for
from governors.schedule import (
    SCHEDULE_OPTION,
    dense_schedule,
    parse_schedule,
    schedule_depths,
    schedule_warnings,
)


class HysteresisSchedule:
    """A Schmitt trigger on the schedule's steps.

    A threshold between loads t and t+1 is crossed upwards at a load above t + dead_band, downwards at one of
    at most t - dead_band; both are cut so that load 1 and load max_num_seqs always reach their own K. K
    changes once the load has asked for it on `dwell_steps` steps running. The first step takes the
    schedule's K.
    """

    def __init__(self, dense: Sequence[int], count: LoadCount, dead_band: int, dwell_steps: int) -> None:
        runs = [(depth, len(list(run))) for depth, run in groupby(dense[1:])]
        self._depths = [depth for depth, _ in runs]
        self._ends = [sum(length for _, length in runs[: index + 1]) for index in range(len(runs))]
        self._count = count
        self._band = dead_band
        self._dwell = dwell_steps
        self._run: int | None = None  # index into `_depths`
        self._asked = 0

    def decide(self, observation: StepObservation) -> DepthDecision:
        load = min(self._count(observation), self._ends[-1])
        before = None if self._run is None else self._depths[self._run]
        self._run = self._next_run(load)
        depth = self._depths[self._run]
        return DepthDecision(observation.limits.k_max, depth, reason_for(before, depth))

    def observe(self, outcome: StepOutcome) -> None:
        """Nothing to learn."""

    def _next_run(self, load: int) -> int:
        if self._run is None:
            return next(index for index, end in enumerate(self._ends) if load <= end)
        wanted = self._wanted(self._run, load)
        self._asked = self._asked + 1 if wanted != self._run else 0
        if self._asked < self._dwell:
            return self._run
        self._asked = 0
        return wanted

    def _wanted(self, run: int, load: int) -> int:
        while run + 1 < len(self._ends) and load > min(self._ends[run] + self._band, self._ends[-1] - 1):
            run += 1
        while run > 0 and load <= max(self._ends[run - 1] - self._band, 1):
            run -= 1
        return run


def build(options: Options, context: GovernorContext) -> HysteresisSchedule:
    reader = OptionReader("hysteresis_schedule", options)
    limits = context.limits
    dense = dense_schedule(parse_schedule(reader), limits.max_num_seqs, limits.k_max)
    dead_band = reader.integer("dead_band", min(2, limits.max_num_seqs), 0, limits.max_num_seqs)
    dwell_steps = reader.integer("dwell_steps", 8, 1, 1_000_000)
    return HysteresisSchedule(dense, load_count(reader), dead_band, dwell_steps)


def warn(options: Options, context: GovernorContext) -> tuple[str, ...]:
    return schedule_warnings("hysteresis_schedule", options, context)


ENTRY = GovernorEntry(
    name="hysteresis_schedule",
    summary="schedule with a dead band around each threshold and a dwell time",
    layer="D",
    source="ours, the obvious repair of vLLM's schedule",
    build=build,
    options={
        "schedule": SCHEDULE_OPTION,
        "count": COUNT_OPTION,
        "dead_band": "requests beyond a threshold before it counts as crossed; default 2",
        "dwell_steps": "steps running that must ask for a change before it is made; default 8",
    },
    changes_depth=True,
    warn=warn,
    depths=schedule_depths,
)
