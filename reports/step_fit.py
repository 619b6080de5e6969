"""Named step-cost constants out of step records: robust least squares, intervals, what cannot be told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from governors.telemetry import StepRecord
from reports.step_design import Column, Design, design, timed
from reports.step_solver import balanced, find_knee, huber, solve, triangle

Array = NDArray[np.float64]
BLOCK_STEPS = 25  # neighbours in time go together: step times drift
HELD_OUT_EVERY = 5  # of these blocks one is held out
LEAST_BLOCKS = 10
RESAMPLES = 400
LEVEL = 0.95
TOLERATED = 0.05  # of a step's time: more than that no constant held at 0 may cost
APART = 1e-3  # share of a column's length that no kept column explains, below which it cannot be told apart


class StepFitError(ValueError):
    """Records that no fit can be made of, or a constant that cannot be; one line with the mend."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A constant in seconds and its interval; all None with `why` in words when it cannot be told."""

    name: str
    seconds: float | None
    low: float | None
    high: float | None
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class StepFit:
    """`held_out`: which steps the constants never saw; errors are predicted / measured - 1 of whole steps.

    knee   tokens from which the constant `knee_token_s` counts; None = the steps show none
    measured_s, predicted_s   float64 (steps,); `records` in the same order
    """

    estimates: tuple[Estimate, ...]
    records: tuple[StepRecord, ...]
    measured_s: Array
    predicted_s: Array
    held_out: NDArray[np.bool_]
    drafter_timed: bool
    block_drafter: bool
    knee: int | None

    @property
    def errors(self) -> Array:
        """Of all steps."""
        return np.asarray(self.predicted_s / self.measured_s - 1.0)

    def held_out_error(self, share: float) -> float:
        """Quantile of |error| over held-out steps."""
        return float(np.quantile(np.abs(self.errors[self.held_out]), share))

    def seconds(self, name: str) -> float:
        """The constant; 0 when it is unknown: what it costs is then held by another."""
        return next((e.seconds or 0.0 for e in self.estimates if e.name == name), 0.0)


def fit_steps(journals: Sequence[Sequence[StepRecord]], *, block_drafter: bool) -> StepFit:
    """`journals`: steps in order, a list each file. StepFitError: too few, one batch size, or out of bounds.

    Relative errors, Huber's weights, no constant below 0. Intervals: 95 %, percentiles of 400
    resamples of blocks of 25 steps (seed 0), so that slow drift widens them; wider still when blocks are few.
    What a whole run shares (a slow host) is not in them: runs fitted apart may differ by more.
    """
    records, blocks = _blocked(journals)
    _check(records, blocks)
    held = blocks % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    knee = find_knee(
        [r for r, out in zip(records, held, strict=True) if not out], block_drafter=block_drafter
    )
    built = design(records, block_drafter=block_drafter, knee=knee)
    rows = np.concatenate([~held] * built.equations) & built.usable
    kept, unknown = _told_apart(built, rows)
    balance = np.concatenate([balanced(records)] * built.equations)[rows]
    matrix, target = built.matrix[rows][:, kept], built.target[rows]
    scale = _expected(matrix, target, balance)
    matrix, target = matrix / scale[:, None], target / scale
    moments = _moments(matrix, target, huber(matrix, target, balance), np.tile(blocks, built.equations)[rows])
    estimates = _solved([built.columns[at] for at in kept], moments, float(balance.sum()))
    whole = built.whole(kept, np.array([estimate.seconds or 0.0 for estimate in estimates]))
    measured = np.array([record.step_s or math.nan for record in records])
    return StepFit(
        (*estimates, *unknown), records, measured, whole, held, built.drafter_timed, block_drafter, knee
    )


def _blocked(journals: Sequence[Sequence[StepRecord]]) -> tuple[tuple[StepRecord, ...], NDArray[np.int64]]:
    """Decoding steps whose duration is known, and the block of each. Prompts follow another law: left out."""
    records: list[StepRecord] = []
    blocks: list[int] = []
    first = 0
    for journal in journals:
        good = timed([step for step in journal if _usable(step)])
        records += good
        blocks += [first + at // BLOCK_STEPS for at in range(len(good))]
        first = blocks[-1] + 1 if blocks else 0
    return tuple(records), np.array(blocks, dtype=np.int64)


def _usable(step: StepRecord) -> bool:
    return (
        step.step_s is not None
        and math.isfinite(step.step_s)
        and step.step_s > 0
        and step.batch > 0
        and not step.prefill_requests
    )


def _check(records: Sequence[StepRecord], blocks: NDArray[np.int64]) -> None:
    found = len(set(blocks.tolist()))
    if found < LEAST_BLOCKS:
        raise StepFitError(
            f"{len(records)} decoding steps of known duration in {found} blocks of {BLOCK_STEPS}: "
            f"{LEAST_BLOCKS} blocks are needed; run longer, or give more files"
        )
    batches = {record.batch for record in records if record.batch}
    if len(batches) < 2:
        raise StepFitError(
            f"every step decodes {min(batches, default=0)} requests: one batch size fits no cost of a "
            "request or a token; give records of several loads"
        )


def _told_apart(built: Design, train: NDArray[np.bool_]) -> tuple[list[int], list[Estimate]]:
    """(columns to fit, constants that cannot be told with the reason), in the order of the columns."""
    kept: list[int] = []
    unknown = []
    matrix = built.matrix[train] / built.scale[train][:, None]
    for at, column in enumerate(built.columns):
        own = matrix[:, at]
        size = float(np.linalg.norm(own))
        if size == 0.0:
            unknown.append(Estimate(column.name, None, None, None, f"{column.counts} never happened"))
            continue
        others = matrix[:, kept]
        left = own - others @ np.linalg.lstsq(others, own, rcond=None)[0] if kept else own
        if np.linalg.norm(left) < APART * size:
            unknown.append(Estimate(column.name, None, None, None, _why(built, column, kept)))
        else:
            kept.append(at)
    return kept, unknown


def _why(built: Design, column: Column, kept: Sequence[int]) -> str:
    raw = built.matrix[:, built.columns.index(column)]
    seen = raw[raw > 0]
    if len(seen) and np.ptp(seen) == 0:
        return f"{column.counts} never varied: its cost is in the overhead"
    holders = ", ".join(built.columns[at].name for at in kept)
    return f"{column.counts} never varied apart from what is fitted already: its cost is in {holders}"


def _expected(matrix: Array, target: Array, balance: Array) -> Array:
    """What a first fit predicts: errors relative to noisy measured times would pull every constant down."""
    relative, ones = matrix / target[:, None], np.ones(len(target))
    root = np.sqrt(huber(relative, ones, balance))
    value = np.linalg.lstsq(relative * root[:, None], root, rcond=None)[0]
    return np.asarray(np.clip(matrix @ value, 0.5 * target, 2.0 * target))


def _solved(columns: Sequence[Column], moments: Array, weight: float) -> list[Estimate]:
    """Estimates in the order of `columns`. One that is not told from 0 is 0, and the others do without it.

    Their intervals hold both answers, with and without it: which is right is not known.
    """
    value = solve(moments.sum(axis=0))
    _check_bounds(columns, value, moments.sum(axis=0), weight)
    estimates = _estimates(columns, value, _resampled(moments), len(moments))
    seen = [at for at, each in enumerate(estimates) if each.low]
    if not seen or len(seen) == len(columns):
        return estimates
    places = [*seen, len(columns)]
    fewer = moments[:, places][:, :, places]
    again = _estimates(
        [columns[at] for at in seen], solve(fewer.sum(axis=0)), _resampled(fewer), len(moments)
    )
    fresh = dict(zip(seen, again, strict=True))
    return [
        _hull(fresh[at], each) if at in fresh else replace(each, seconds=0.0)
        for at, each in enumerate(estimates)
    ]


def _hull(estimate: Estimate, other: Estimate) -> Estimate:
    ends = [end for each in (estimate, other) for end in (each.low, each.high) if end is not None]
    return replace(estimate, low=min(ends), high=max(ends))


def _moments(matrix: Array, target: Array, weights: Array, blocks: NDArray[np.int64]) -> Array:
    """(blocks, n + 1, n + 1): the weighted normal equations of each block."""
    rows = np.column_stack([matrix, target])
    return np.array(
        [
            (rows[blocks == block] * weights[blocks == block][:, None]).T @ rows[blocks == block]
            for block in np.unique(blocks)
        ]
    )


def _check_bounds(columns: Sequence[Column], value: Array, moments: Array, weight: float) -> None:
    """StepFitError: only a negative constant would describe the steps; 0 in its place leaves much more."""
    root, right = triangle(moments)
    free = np.linalg.solve(root, right)

    def left(x: NDArray[Any]) -> float:
        square = moments[-1, -1] - 2 * x @ moments[:-1, -1] + x @ moments[:-1, :-1] @ x
        return math.sqrt(max(0.0, float(square)) / weight)

    lost = left(value) - left(free)
    if lost > TOLERATED:
        worst = int(np.argmin(free * np.sqrt(np.diag(moments[:-1, :-1]))))
        raise StepFitError(
            f"{columns[worst].name} = {free[worst]:.3g} s: below 0, and held at 0 the steps fit {lost:.0%} "
            f"worse; no cost is negative: {columns[worst].counts} hide another cause; fit fewer arms or loads"
        )


def _resampled(moments: Array) -> Array:
    """(RESAMPLES, n): constants of blocks drawn with replacement."""
    random = np.random.default_rng(0)
    count = len(moments)
    return np.array(
        [
            solve(np.einsum("b,bij->ij", random.multinomial(count, [1 / count] * count), moments))
            for _ in range(RESAMPLES)
        ]
    )


def _estimates(columns: Sequence[Column], value: Array, draws: Array, blocks: int) -> list[Estimate]:
    """StepFitError: a constant above what any engine costs.

    Percentiles of the resamples, widened about the value by Student's quantile over the normal's.
    """
    from scipy.stats import norm, t

    found = []
    tail = (1 - LEVEL) / 2
    wider = float(t.ppf(1 - tail, blocks - 1) / norm.ppf(1 - tail)) * math.sqrt(blocks / (blocks - 1))
    for at, column in enumerate(columns):
        seconds = float(value[at])
        ends = seconds + wider * (np.quantile(draws[:, at], [tail, 1 - tail]) - seconds)
        low, high = max(0.0, float(ends[0])), float(ends[1])
        if low > column.most_s:
            raise StepFitError(
                f"{column.name} = {seconds:.3g} s ({low:.3g} to {high:.3g}): above {column.most_s:g} s; "
                "are the times in seconds?"
            )
        found.append(Estimate(column.name, seconds, low, high))
    return found
