"""Budget verdicts: a budget, an arm and a concurrency in; a ruling and its sentence out.

kept: the whole interval is inside the bound. broken: all of it is outside. Else inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reports.figures import CellResult, samples_needed
from reports.formats import metric_format, metric_interval
from reports.interval import count_rate_interval
from reports.judgement import BudgetVerdict, Interval, Ruling
from suites.grammar import counted
from suites.measures import PERCENTILES
from suites.model import Budget, Suite

Results = Mapping[tuple[str, int], CellResult]


@dataclass(frozen=True, slots=True)
class Bound:
    """One side of one budget. `is_ratio`: of the baseline; `at_least`: not to fall below `limit`."""

    metric: str
    limit: float
    is_ratio: bool
    at_least: bool

    @property
    def text(self) -> str:
        """`ratio >= 0.97`"""
        return f"{'ratio' if self.is_ratio else 'value'} {'>=' if self.at_least else '<='} {self.limit:g}"

    def ruling(self, value: Interval) -> Ruling:
        """Where the whole interval lies; an end on the limit is inside."""
        inside = (
            (value.low >= self.limit, value.high >= self.limit)
            if self.at_least
            else (value.low <= self.limit, value.high <= self.limit)
        )
        if all(inside):
            return Ruling.KEPT
        return Ruling.INCONCLUSIVE if any(inside) else Ruling.BROKEN


def bounds(budget: Budget) -> list[Bound]:
    """The sides that the budget states."""
    sides = [
        (budget.min_ratio, True, True),
        (budget.max_ratio, True, False),
        (budget.max_value, False, False),
    ]
    return [Bound(budget.metric, limit, ratio, least) for limit, ratio, least in sides if limit is not None]


def budget_verdicts(
    suite: Suite, results: Results, unapplied: Mapping[str, str]
) -> tuple[BudgetVerdict, ...]:
    """Every budget x arm x concurrency of the suite. `unapplied`: arm -> why its policy was not in force."""
    return tuple(
        _verdict(bound, arm, concurrency, Evidence(suite, results, unapplied))
        for budget in suite.budgets
        for bound in bounds(budget)
        for arm in budget.arms or [arm.name for arm in suite.arms if not arm.baseline]
        for concurrency in suite.load.concurrency
    )


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict is drawn from."""

    suite: Suite
    results: Results
    unapplied: Mapping[str, str]

    def spoiled(self, arm: str, concurrency: int) -> str | None:
        """Why the cell of an arm cannot be judged at all; None when it can."""
        result = self.results.get((arm, concurrency))
        if arm in self.unapplied:
            return self.unapplied[arm]
        if result is not None and result.figures.invalid:
            return result.figures.invalid[0]
        return None

    def value(self, bound: Bound, arm: str, concurrency: int) -> Interval | None:
        """The interval that the bound speaks of; None = unknown."""
        result = self.results[arm, concurrency]
        if bound.is_ratio:
            return result.figures.ratios.get(bound.metric)
        if bound.metric == "switches_per_1k_steps":
            switches = result.switches
            if switches is None:
                return None
            return count_rate_interval(switches.switches, switches.steps / 1000, self.suite.confidence)
        return result.figures.figures.get(bound.metric)


def _verdict(bound: Bound, arm: str, concurrency: int, evidence: Evidence) -> BudgetVerdict:
    ruling, value, why = _rule(bound, arm, concurrency, evidence)
    label = metric_format(bound.metric).label
    shown = f" {_shown(bound, value, evidence.suite.baseline.name)}" if value else ""
    sentence = (
        f"{arm} at c={concurrency}: {label}{shown}, bound {bound.text}: {ruling}{f' ({why})' if why else ''}"
    )
    return BudgetVerdict(arm, concurrency, bound.metric, bound.text, value, ruling, sentence)


def _rule(
    bound: Bound, arm: str, concurrency: int, evidence: Evidence
) -> tuple[Ruling, Interval | None, str]:
    """(ruling, value, why the interval alone did not decide)."""
    baseline = evidence.suite.baseline.name
    if (arm, concurrency) not in evidence.results:
        return Ruling.INCONCLUSIVE, None, "not measured"
    reason = evidence.spoiled(arm, concurrency)
    if reason is not None:
        return Ruling.INVALID, None, reason
    if bound.is_ratio:
        if (baseline, concurrency) not in evidence.results:
            return Ruling.INVALID, None, f"baseline {baseline} was not measured"
        reason = evidence.spoiled(baseline, concurrency)
        if reason is not None:
            return Ruling.INVALID, None, f"baseline {baseline}: {reason}"
    value = evidence.value(bound, arm, concurrency)
    doubt = next(_doubts(bound, value, (arm, concurrency), evidence), "")
    if value is None:
        return Ruling.INCONCLUSIVE, None, doubt or _unknown(bound, evidence.results[arm, concurrency])
    return (Ruling.INCONCLUSIVE, value, doubt) if doubt else (bound.ruling(value), value, "")


def _doubts(bound: Bound, value: Interval | None, cell: tuple[str, int], evidence: Evidence) -> Iterator[str]:
    """Why a percentile does not stand for its requests: too few samples, or too many that never finished."""
    arm, concurrency = cell
    level = next((level for name, level in PERCENTILES.items() if f"_{name}_" in bound.metric), None)
    if level is None:
        return
    for name in (arm, evidence.suite.baseline.name) if bound.is_ratio else (arm,):
        result = evidence.results[name, concurrency]
        samples, needed = result.samples.get(bound.metric, 0), samples_needed(bound.metric)
        if 0 < samples < needed:
            yield f"{name} has {counted(samples, 'sample')}, {needed} are needed"
        not_done = f"{100 * (1 - result.done_share):.3g}% of {name}'s requests were not done"
        stretch = result.stretches.get(bound.metric, 1.0)
        if 1 - result.done_share > 1 - level or math.isinf(stretch):
            yield f"{not_done}: the percentile is open"
        elif value is not None and bound.ruling(value) is not bound.ruling(
            value.times(stretch if name == arm else 1 / stretch)
        ):
            yield f"{not_done}: counted as never ended they move the percentile across the bound"


def _unknown(bound: Bound, result: CellResult) -> str:
    if bound.metric == "switches_per_1k_steps":
        return "the engine wrote no step records"
    if bound.metric in result.figures.points:
        return "no interval: one unit shows no spread; raise repeats"
    return "unknown: the server did not report what it is computed from"


def _shown(bound: Bound, value: Interval, baseline: str) -> str:
    if bound.is_ratio:
        return f"{value.point:.3g} of {baseline} ({value.low:.3g} to {value.high:.3g})"
    unit = metric_format(bound.metric).unit
    return f"{metric_interval(bound.metric, value)} {unit}".rstrip()
