"""State starvation after K=0: are the first drafts after a pause of the drafter worse than settled ones?

A drafter whose state the engine does not keep up during K=0 drafts from a gap afterwards (TensorRT-LLM#16888,
vllm#53426). Nothing fails: only acceptance falls, so it has to be looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from reports.interval import bootstrap_interval, unit_draws
from reports.judgement import Interval
from reports.samples import IntArray
from reports.step_series import StepSeries

STARVED = 0.7  # ratio below which a pause is worth a note
FIRST = 2  # verifications after a pause that count as resumed
SETTLED = 8  # from this one on they count as settled, as do all before the first pause


@dataclass(frozen=True, slots=True, eq=False)
class Resumption:
    """Drafts after pauses and apart from them: int64 (P, D), a row for each pause (row 0: before any), a
    column for each depth in force."""

    resumed_verified: IntArray
    resumed_accepted: IntArray
    settled_verified: IntArray
    settled_accepted: IntArray

    @property
    def resumed_rate(self) -> float | None:
        """Share of the verified drafts that passed in the first steps after a pause; None without any."""
        return _rate(self.resumed_accepted, self.resumed_verified)

    @property
    def settled_rate(self) -> float | None:
        """The same away from pauses."""
        return _rate(self.settled_accepted, self.settled_verified)


def resumption(series: StepSeries) -> Resumption:
    """Sorts the decoding steps of any journal by how many verifications ago the drafter last paused."""
    steps = series.rows(series.batch > 0)
    paused = steps.depth_in_force == 0
    index = np.arange(len(steps))
    last_pause = np.maximum.accumulate(np.where(paused, index, -SETTLED)) if len(steps) else index
    since = index - last_pause  # 1 = the first verification after a pause
    begins = paused & ~np.concatenate([[False], paused[:-1]])[: len(steps)]
    row = np.cumsum(begins)
    shape = (int(row.max(initial=0)) + 1, int(steps.depth_in_force.max(initial=0)) + 1)

    def counted(values: IntArray, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> IntArray:
        sums = np.zeros(shape, dtype=np.int64)
        np.add.at(sums, (row[chosen], steps.depth_in_force[chosen]), values[chosen])
        return sums

    resumed, settled = ~paused & (since <= FIRST), ~paused & (since >= SETTLED)
    return Resumption(
        counted(steps.verified, resumed),
        counted(steps.accepted, resumed),
        counted(steps.verified, settled),
        counted(steps.accepted, settled),
    )


def starvation(
    of: Resumption, reference: Resumption | None = None, seed: int = 0, confidence: float = 0.95
) -> Interval | None:
    """Acceptance of resumed drafts over that of settled ones at the same depths; 1: no pause is minded.

    `reference`: whose settled drafts to compare with, e.g. an arm that never pauses; None: the journal's own.
    Interval: bootstrap over pauses, against settled rates drawn from what their number leaves open (Jeffreys;
    the drafts of a verification count as one, since one that fails fails those after it). None where either
    side has no drafts, or below two pauses.
    """
    base = reference or of
    verified, accepted = base.settled_verified.sum(axis=0), base.settled_accepted.sum(axis=0)
    depths = min(len(verified), of.resumed_verified.shape[1])
    known = np.flatnonzero(verified[:depths] > 0)
    rates = accepted[known] / verified[known]
    pauses = of.resumed_verified[:, known].sum(axis=1) > 0
    drafted = of.resumed_verified[pauses][:, known]
    expected = drafted @ rates
    passed = of.resumed_accepted[pauses][:, known].sum(axis=1)
    if not len(expected) or expected.sum() <= 0:
        return None
    weights = unit_draws(len(expected), seed, "pauses")
    tried, hits = verified[known] / known, accepted[known] / known  # column d: drafts at depth d
    settled = np.random.default_rng(seed).beta(hits + 0.5, tried - hits + 0.5, (len(weights), len(known)))
    drawn = (weights @ passed) / np.maximum((weights @ drafted * settled).sum(axis=1), np.finfo(float).tiny)
    point = float(passed.sum() / expected.sum())
    return bootstrap_interval(point, drawn, len(expected), confidence)


def starvation_note(journals: Iterable[StepSeries], seed: int, confidence: float) -> str | None:
    """A sentence for a cell whose drafter starves, from the journals of its repeats; None otherwise."""
    found = starvation(_together([resumption(series) for series in journals]), None, seed, confidence)
    if found is None or found.high >= STARVED:
        return None
    return (
        "drafter state starves after K=0: the first drafts after it pass "
        f"{found.point:.2f} ({found.low:.2f} to {found.high:.2f}) times as often as settled ones"
    )


def _together(parts: Sequence[Resumption]) -> Resumption:
    """All pauses of all journals, depths filled up to the deepest."""
    depths = max((part.resumed_verified.shape[1] for part in parts), default=1)

    def stacked(name: str) -> IntArray:
        columns = [getattr(part, name) for part in parts]
        filled = [np.pad(column, ((0, 0), (0, depths - column.shape[1]))) for column in columns]
        return np.concatenate([np.zeros((0, depths), dtype=np.int64), *filled])

    return Resumption(*(stacked(name) for name in Resumption.__slots__))


def _rate(accepted: IntArray, verified: IntArray) -> float | None:
    total = int(verified.sum())
    return int(accepted.sum()) / total if total else None
