"""Statistics of one arm at one concurrency: the point value and the bootstrap draws of every metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadgen.records import Outcome
from reports.amplification import verified_and_emitted
from reports.interval import DRAWS, bootstrap_interval, unit_draws
from reports.judgement import Interval
from reports.metrics import LATENCIES, answered, outcome_counts
from reports.run_folder import CellData
from reports.samples import FloatArray, IntArray, Samples, percentiles, pooled, resampled_percentiles
from reports.step_series import StepSeries
from reports.throughput import token_spans
from suites.measures import PERCENTILES

GROUPS = 30  # of a lone repeat's requests, in their order: neighbours share the engine's mood


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """`drawn` float64 (DRAWS,): the value in each draw, from `n_units` units, of `samples` values.

    `stretch`: what the point is to be multiplied by when requests that were not done count as never ended;
    inf when the percentile is among them.
    """

    point: float
    drawn: FloatArray
    n_units: int
    samples: int
    stretch: float = 1.0

    def interval(self, confidence: float) -> Interval | None:
        """None when one unit shows no spread."""
        return bootstrap_interval(self.point, self.drawn, self.n_units, confidence)

    def ratio(self, base: Statistic, confidence: float) -> Interval | None:
        """Interval of self / base, draw by draw: paired when both cells have the same repeats."""
        if base.point <= 0 or not np.all(base.drawn > 0):
            return None
        drawn = self.drawn / base.drawn
        return bootstrap_interval(self.point / base.point, drawn, min(self.n_units, base.n_units), confidence)


@dataclass(frozen=True, slots=True)
class Pool:
    """Repeat -> data of one arm at one concurrency; `steps`: where they are known."""

    arm: str
    concurrency: int
    repeats: Mapping[int, CellData]
    steps: Mapping[int, StepSeries]

    def only(self, repeats: frozenset[int]) -> Pool:
        """The same cell with fewer repeats."""
        return replace(
            self,
            repeats={repeat: cell for repeat, cell in self.repeats.items() if repeat in repeats},
            steps={repeat: steps for repeat, steps in self.steps.items() if repeat in repeats},
        )

    def loaded(self) -> Pool:
        """The same with all of its requests in memory."""
        return replace(self, repeats={repeat: cell.loaded() for repeat, cell in self.repeats.items()})

    def label(self) -> str:
        """Draws of two arms are the same when this is: paired by repeat, never by the requests of one."""
        repeats = ",".join(map(str, self.repeats))
        return (
            f"c{self.concurrency}/r{repeats}" if len(self.repeats) > 1 else f"{self.arm}/c{self.concurrency}"
        )


def statistics(pool: Pool, mode: str, seed: int) -> dict[str, Statistic]:
    """Metric name -> statistic, for the metrics that are known."""
    found: dict[str, Statistic | None] = {"tokens_per_s": _throughput(pool, mode, seed)}
    for family, metric in LATENCIES.items():
        found |= _latency(
            family, _whole([metric(cell.requests) for cell in pool.repeats.values()]), pool, seed
        )
    found["acceptance_length"] = _acceptance(pool, seed)
    found["verified_per_emitted"] = _amplification(pool, seed)
    return {name: statistic for name, statistic in found.items() if statistic is not None}


def _whole(repeats: Sequence[Samples | None]) -> Samples | None:
    return _grouped(repeats[0]) if len(repeats) == 1 else pooled(repeats)


def _latency(family: str, whole: Samples | None, pool: Pool, seed: int) -> dict[str, Statistic | None]:
    if whole is None:
        return {}
    weights = unit_draws(whole.n_units, seed, pool.label())
    levels = list(PERCENTILES.values())
    points = percentiles(whole, levels)
    drawn = resampled_percentiles(whole, weights, levels)
    stretches = _stretches(whole, levels, points, pool)
    return {
        f"{family}_{name}_s": Statistic(
            float(points[column]), drawn[:, column], whole.n_units, whole.total, stretches[column]
        )
        for column, name in enumerate(PERCENTILES)
    }


def _stretches(of: Samples, levels: Sequence[float], points: FloatArray, pool: Pool) -> list[float]:
    """Statistic.stretch of each level: with a share s done, percentile p of all is p / s of the done."""
    counts = outcome_counts(cell.requests for cell in pool.repeats.values())
    done, all_of_them = counts.get(Outcome.DONE, 0), answered(counts)
    if done == all_of_them:
        return [1.0] * len(levels)
    open_levels = [level * all_of_them / done if done else math.inf for level in levels]
    known = percentiles(of, [min(level, 1.0) for level in open_levels])
    return [
        float(value / point) if level <= 1.0 and point > 0 else math.inf
        for level, value, point in zip(open_levels, known, points, strict=True)
    ]


def _grouped(of: Samples | None) -> Samples | None:
    """The samples of one repeat with at most GROUPS units, each of consecutive requests."""
    if of is None:
        return None
    size = -(-of.n_units // GROUPS)
    return Samples(of.values, of.counts, of.units // size, -(-of.n_units // size))


def _throughput(pool: Pool, mode: str, seed: int) -> Statistic | None:
    spans = [token_spans(cell.requests, cell.record, mode) for cell in pool.repeats.values()]
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(spans):
        return None
    if len(known) == 1:
        return _quotient(known[0].tokens, known[0].seconds, pool, seed)
    tokens = np.array([span.tokens.sum() for span in known])
    return _quotient(tokens, np.array([span.seconds.sum() for span in known]), pool, seed)


def _acceptance(pool: Pool, seed: int) -> Statistic | None:
    """1 + accepted / drafts; 1 where nothing was drafted."""
    cells = [cell.record for cell in pool.repeats.values()]
    accepted = [cell.accepted_tokens for cell in cells if cell.accepted_tokens is not None]
    drafts = [cell.drafts for cell in cells if cell.drafts is not None]
    if not cells or len(accepted) < len(cells) or len(drafts) < len(cells):
        return None
    weights = unit_draws(len(cells), seed, pool.label())
    drawn = 1.0 + (weights @ np.array(accepted)) / np.maximum(weights @ np.array(drafts), 1)
    return Statistic(1.0 + sum(accepted) / max(sum(drafts), 1), drawn, len(cells), len(cells))


def _amplification(pool: Pool, seed: int) -> Statistic | None:
    """Draft tokens verified / tokens emitted: over the steps of the window, else by the engine's counters."""
    if not pool.repeats:
        return None
    if set(pool.steps) == set(pool.repeats):
        pairs = [(int(steps.verified.sum()), int(steps.emitted.sum())) for steps in pool.steps.values()]
    else:
        counted = [verified_and_emitted(cell.record) for cell in pool.repeats.values()]
        pairs = [pair for pair in counted if pair is not None]
        if len(pairs) < len(counted):
            return None
    verified, emitted = np.array(pairs, dtype=np.float64).T
    return _quotient(verified, emitted, pool, seed)


def _quotient(top: FloatArray, bottom: FloatArray, pool: Pool, seed: int) -> Statistic | None:
    """sum(top) / sum(bottom) with the entries as units; None when the bottom is zero in all or in a draw."""
    if not len(bottom) or not np.all(bottom > 0):
        return None
    weights: IntArray = unit_draws(len(top), seed, pool.label(), DRAWS)
    drawn = (weights @ top) / (weights @ bottom)
    return Statistic(float(top.sum() / bottom.sum()), drawn, len(top), len(top))
