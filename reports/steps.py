"""Step records as arrays: which steps belong to a cell, how K moved, and whether the policy was applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from governors.telemetry import StepRecord

# A step or two may end without a drafter's run (its last request finished); a policy that is not applied shows more.
MISMATCH_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class StepSeries:
    """Columns of the step records of one arm and repeat, in the order of the file; all of shape (S,)."""

    step: NDArray[np.int64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    batch: NDArray[np.int64]
    depth_chosen: NDArray[np.int64]
    depth_executed: NDArray[np.int64]
    verified: NDArray[np.int64]
    emitted: NDArray[np.int64]
    reason: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.step)

    def where(self, mask: NDArray[np.bool_]) -> StepSeries:
        """The rows at which `mask` is true."""
        return StepSeries(*(getattr(self, name)[mask] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class DepthTrace:
    """K over time in one cell of one repeat, for a plot: step i started `time_s[i]` after the cell's window did.

    `depth_chosen` is what the governor asked for, `depth_executed` what the drafter ran; `batch` decoding requests.
    """

    arm: str
    concurrency: int
    repeat: int
    time_s: tuple[float, ...]
    depth_chosen: tuple[int, ...]
    depth_executed: tuple[int, ...]
    batch: tuple[int, ...]
    reason: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SwitchCount:
    """Changes of the executed depth between consecutive settled steps."""

    switches: int
    steps: int

    @property
    def per_1k_steps(self) -> float | None:
        """None when no settled step was recorded."""
        return 1000.0 * self.switches / self.steps if self.steps else None


def step_series(records: Sequence[StepRecord]) -> StepSeries:
    """Columns of `records`."""

    def integers(name: str) -> NDArray[np.int64]:
        return np.array([getattr(record, name) for record in records], dtype=np.int64)

    def floats(name: str) -> NDArray[np.float64]:
        return np.array([getattr(record, name) for record in records], dtype=np.float64)

    return StepSeries(
        step=integers("step"),
        start_s=floats("start_s"),
        end_s=floats("end_s"),
        batch=integers("batch"),
        depth_chosen=integers("depth_chosen"),
        depth_executed=integers("depth_executed"),
        verified=integers("verified"),
        emitted=integers("emitted"),
        reason=np.array([record.reason for record in records], dtype=np.str_),
    )


def cell_steps(series: StepSeries, windows: Sequence[tuple[float, float]]) -> list[StepSeries]:
    """The steps of each cell, given the cells' windows in the order in which they ran.

    On the wall clock one engine serves all cells of an arm and repeat, and engine and client read the same
    monotonic clock: a step belongs to the window it started in. In virtual time every cell has an engine and a
    clock of its own, its step numbers restart, and the i-th restart is the i-th cell.
    """
    restarts = np.flatnonzero(np.diff(series.step) <= 0) + 1
    part = np.zeros(len(series), dtype=np.int64)
    part[restarts] = 1
    part = np.cumsum(part)
    one_engine = len(restarts) == 0
    return [
        series.where(
            (series.start_s >= start)
            & (series.start_s < end)
            & (one_engine | (part == index)).astype(np.bool_)
        )
        for index, (start, end) in enumerate(windows)
    ]


def settled(series: StepSeries) -> StepSeries:
    """From the first step at the cell's largest batch to the last one: ramp-up and drain are left out."""
    if not len(series):
        return series
    at_peak = np.flatnonzero(series.batch == series.batch.max())
    index = np.arange(len(series))
    return series.where((index >= at_peak[0]) & (index <= at_peak[-1]))


def switch_count(series: StepSeries) -> SwitchCount:
    """Switches of the executed depth once the load has settled."""
    steady = settled(series)
    return SwitchCount(int(np.count_nonzero(np.diff(steady.depth_executed))), len(steady))


def unapplied(series: StepSeries) -> str | None:
    """A sentence when the depth that ran is not the depth that the policy chose; None when it was applied."""
    decoding = series.where(series.batch > 0)
    differ = int(np.count_nonzero(decoding.depth_chosen != decoding.depth_executed))
    if differ <= MISMATCH_SHARE * len(decoding):
        return None
    return f"policy not applied: chosen and executed depth differ in {differ} of {len(decoding)} steps"


def depth_trace(arm: str, concurrency: int, repeat: int, start_s: float, series: StepSeries) -> DepthTrace:
    """The trace of one cell's steps, relative to `start_s`."""
    return DepthTrace(
        arm=arm,
        concurrency=concurrency,
        repeat=repeat,
        time_s=tuple((series.start_s - start_s).tolist()),
        depth_chosen=tuple(series.depth_chosen.tolist()),
        depth_executed=tuple(series.depth_executed.tolist()),
        batch=tuple(series.batch.tolist()),
        reason=tuple(series.reason.tolist()),
    )
