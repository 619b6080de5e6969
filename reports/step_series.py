"""Step records as arrays: which steps belong to a cell, how K moved, and whether the policy was applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from governors.telemetry import StepRecord
from reports.samples import FloatArray, IntArray

# A step may end without a drafter's run (its last request finished); an unapplied policy shows more.
MISMATCH_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class StepSeries:
    """Columns of the step records of one arm and repeat, in the order of the file; all of shape (S,)."""

    step: IntArray
    start_s: FloatArray
    batch: IntArray
    depth_in_force: IntArray
    depth_chosen: IntArray
    depth_executed: IntArray
    verified: IntArray
    accepted: IntArray
    emitted: IntArray

    def __len__(self) -> int:
        return len(self.step)

    def rows(self, chosen: Sequence[int] | IntArray | NDArray[np.bool_]) -> StepSeries:
        """The rows of these numbers, or at which a mask is true."""
        return StepSeries(*(getattr(self, name)[chosen] for name in self.__slots__))


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

    def integers(name: str) -> IntArray:
        return np.array([getattr(record, name) for record in records], dtype=np.int64)

    return StepSeries(
        step=integers("step"),
        start_s=np.array([record.start_s for record in records], dtype=np.float64),
        batch=integers("batch"),
        depth_in_force=integers("depth_in_force"),
        depth_chosen=integers("depth_chosen"),
        depth_executed=integers("depth_executed"),
        verified=integers("verified"),
        accepted=integers("accepted"),
        emitted=integers("emitted"),
    )


def together(parts: Sequence[StepSeries]) -> StepSeries:
    """All of them in one, in their order."""
    parts = parts or [step_series(())]
    return StepSeries(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in StepSeries.__slots__)
    )


def cell_rows(series: StepSeries, windows: Sequence[tuple[float, float]]) -> list[IntArray]:
    """Row numbers of each cell's steps, given the cells' windows in the order in which they ran.

    On the wall clock one engine serves all cells of an arm and repeat, and engine and client read the same
    monotonic clock: a step belongs to the window it started in. In virtual time every cell has an engine and
    a clock of its own, its step numbers restart, and the i-th restart is the i-th cell.
    """
    part = np.concatenate([[0], np.cumsum(np.diff(series.step) <= 0)])[: len(series)]
    one_engine = not part.any()
    return [
        np.flatnonzero((series.start_s >= start) & (series.start_s < end) & ((part == index) | one_engine))
        for index, (start, end) in enumerate(windows)
    ]


def settled(series: StepSeries) -> StepSeries:
    """From the first step at the cell's largest batch to the last one: ramp-up and drain are left out."""
    if not len(series):
        return series
    at_peak = np.flatnonzero(series.batch == series.batch.max())
    index = np.arange(len(series))
    return series.rows((index >= at_peak[0]) & (index <= at_peak[-1]))


def switch_count(series: StepSeries, mode: str = "closed") -> SwitchCount:
    """Switches of the executed depth once the load has settled; of an open loop, which never does, in all."""
    steady = series if mode == "open" else settled(series)
    return SwitchCount(int(np.count_nonzero(np.diff(steady.depth_executed))), len(steady))


def unapplied_share(series: StepSeries) -> float | None:
    """Share of the decoding steps in which another depth ran than was chosen; None without such steps."""
    decoding = series.rows(series.batch > 0)
    if not len(decoding):
        return None
    return float(np.count_nonzero(decoding.depth_chosen != decoding.depth_executed) / len(decoding))


def unapplied(series: StepSeries) -> str | None:
    """A sentence when the depth that ran is not the depth that the policy chose; None when it was applied."""
    decoding = series.rows(series.batch > 0)
    differ = int(np.count_nonzero(decoding.depth_chosen != decoding.depth_executed))
    if differ <= MISMATCH_SHARE * len(decoding):
        return None
    return f"policy not applied: chosen and executed depth differ in {differ} of {len(decoding)} steps"
