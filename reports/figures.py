"""CellFigures from a pool of repeats: intervals, ratios to the baseline, faults and notes of the cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loadgen.columns import RequestColumns
from loadgen.records import Outcome
from reports.by_repeat import values_by_repeat
from reports.course import phase_figures, phase_note
from reports.interval import share_interval
from reports.judgement import CellFigures, Interval
from reports.metrics import (
    acceptance_by_position,
    answered,
    failed,
    jain_index,
    outcome_counts,
    peak_concurrency,
    refused,
    tokens_per_chunk_by_class,
)
from reports.starvation import starvation_note
from reports.statistics import Pool, Statistic, statistics
from reports.step_series import SwitchCount, switch_count, unapplied, unapplied_share
from reports.throughput import peak_tokens_per_s, token_spans
from suites.measures import SAMPLES_NEEDED
from suites.model import Suite


@dataclass(frozen=True, slots=True)
class CellResult:
    """Figures of one cell with what the budgets need beside them.

    `samples`: metric -> how many values it was taken from; `stretches`: metric -> Statistic.stretch;
    `done_share`: of all that the server could answer.
    """

    figures: CellFigures
    switches: SwitchCount | None
    samples: Mapping[str, int]
    stretches: Mapping[str, float]
    done_share: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A pool and the statistics of all its repeats."""

    pool: Pool
    statistics: Mapping[str, Statistic]


def cell_result(measured_cell: Measured, baseline: Measured | None, suite: Suite) -> CellResult:
    """`baseline` None for the baseline arm itself, and when it was not measured."""
    pool, own = measured_cell.pool, measured_cell.statistics
    requests = [cell.requests for cell in pool.repeats.values()]
    counts = outcome_counts(requests)
    switches = _switches(pool, suite.load.mode)
    figures = CellFigures(
        arm=pool.arm,
        concurrency=pool.concurrency,
        repeats=len(pool.repeats),
        requests=counts,
        figures=_intervals(own, counts, suite.confidence),
        ratios=_ratios(measured_cell, baseline, suite),
        acceptance_by_class=tokens_per_chunk_by_class(requests),
        acceptance_by_position=acceptance_by_position([cell.record for cell in pool.repeats.values()]),
        switches_per_1k_steps=switches.per_1k_steps if switches else None,
        invalid=_invalid(pool),
        notes=_notes(pool, own, suite),
        points=_points(own, counts, pool, suite.load.mode),
        by_repeat=values_by_repeat(pool, suite.load.mode),
    )
    samples = {name: statistic.samples for name, statistic in own.items()}
    stretches = {name: statistic.stretch for name, statistic in own.items()}
    done_share = counts.get(Outcome.DONE, 0) / answered(counts) if answered(counts) else 0.0
    return CellResult(figures, switches, samples, stretches, done_share)


def _intervals(
    own: Mapping[str, Statistic], counts: dict[str, int], confidence: float
) -> dict[str, Interval | None]:
    return {
        **{name: statistic.interval(confidence) for name, statistic in own.items()},
        "refusal_rate": share_interval(refused(counts), answered(counts), confidence),
        "failure_rate": share_interval(failed(counts), answered(counts), confidence),
    }


def _ratios(own: Measured, baseline: Measured | None, suite: Suite) -> dict[str, Interval | None]:
    """Ratios over the repeats that both arms have; none without a baseline."""
    common = frozenset(own.pool.repeats) & frozenset(baseline.pool.repeats) if baseline else frozenset()
    if baseline is None or not common:
        return {}
    top, bottom = _over(own, common, suite), _over(baseline, common, suite)
    return {name: item.ratio(bottom[name], suite.confidence) for name, item in top.items() if name in bottom}


def _over(cell: Measured, repeats: frozenset[int], suite: Suite) -> Mapping[str, Statistic]:
    if repeats == frozenset(cell.pool.repeats):
        return cell.statistics
    return statistics(cell.pool.only(repeats).loaded(), suite.load.mode, suite.seed)


def _points(own: Mapping[str, Statistic], counts: dict[str, int], pool: Pool, mode: str) -> dict[str, float]:
    points = {name: statistic.point for name, statistic in own.items()}
    if answered(counts):
        points["refusal_rate"] = refused(counts) / answered(counts)
        points["failure_rate"] = failed(counts) / answered(counts)
    cells = pool.repeats.values()
    fairness = [jain_index(cell.requests) for cell in cells]
    spans = [token_spans(cell.requests, cell.record, mode) for cell in cells]
    peaks = [peak_tokens_per_s(span) for span in spans if span is not None]
    worst = min((value for value in fairness if value is not None), default=None)
    peak = max((value for value in peaks if value is not None), default=None)
    shares = [share for share in map(unapplied_share, pool.steps.values()) if share is not None]
    beside = {
        "jain_index": worst,
        "peak_tokens_per_s": peak,
        "unapplied_share": max(shares, default=None),
    }
    return points | {name: value for name, value in beside.items() if value is not None}


def _switches(pool: Pool, mode: str) -> SwitchCount | None:
    """Summed over the repeats; None unless every repeat has step records."""
    if not pool.repeats or set(pool.steps) != set(pool.repeats):
        return None
    counts = [switch_count(steps, mode) for steps in pool.steps.values()]
    return SwitchCount(sum(count.switches for count in counts), sum(count.steps for count in counts))


def _invalid(pool: Pool) -> tuple[str, ...]:
    """One spoiled repeat spoils the cell: leaving it out afterwards would be choosing."""
    said = []
    for repeat, cell in pool.repeats.items():
        said += [f"repeat {repeat}: {reason}" for reason in cell.record.invalid]
        if not cell.requests.measured.any() and not cell.record.invalid:
            said.append(f"repeat {repeat}: no request succeeded ({_why(cell.requests)})")
    return (*said, *_unapplied(pool))


def _grouped(metrics: Iterable[str]) -> list[str]:
    """`e2e p95, p99` for e2e_p95_s and e2e_p99_s."""
    found: dict[str, list[str]] = {}
    for family, percentile in (name.removesuffix("_s").rsplit("_", 1) for name in sorted(metrics)):
        found.setdefault(family, []).append(percentile)
    return [f"{family} {' and '.join(percentiles)}" for family, percentiles in found.items()]


def _unapplied(pool: Pool) -> list[str]:
    """What ran was another policy: neither budgets nor reproducers may take it for the arm's."""
    found = [(repeat, unapplied(steps)) for repeat, steps in pool.steps.items()]
    return [f"repeat {repeat}: {why}" for repeat, why in found if why is not None]


def _why(of: RequestColumns) -> str:
    counts = outcome_counts([of])
    said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "none was sent"
    return f"{said}; first reason: {' '.join(of.first_why.split())[:200]}" if of.first_why else said


def _notes(pool: Pool, own: Mapping[str, Statistic], suite: Suite) -> tuple[str, ...]:
    said = list(dict.fromkeys(note for cell in pool.repeats.values() for note in cell.record.notes))
    for cell in pool.repeats.values():
        said += phase_note(phase_figures(cell.requests, cell.record))
    said += _contradicting([cell.requests for cell in pool.repeats.values()])
    spans = [token_spans(cell.requests, cell.record, suite.load.mode) for cell in pool.repeats.values()]
    said += dict.fromkeys(span.note for span in spans if span is not None and span.note)
    if len(pool.repeats) == 1:
        said.append("one repeat: intervals are over its requests and say nothing about a second engine start")
    said += filter(None, [starvation_note(pool.steps.values(), suite.seed, suite.confidence)])
    few = {name: item.samples for name, item in own.items() if item.samples < samples_needed(name)}
    if few:
        said.append(f"shown but not gated, too few values for the percentile: {', '.join(_grouped(few))}")
    peak = max((peak_concurrency(cell.requests) for cell in pool.repeats.values()), default=0)
    most = suite.load.most_in_flight(pool.concurrency)
    if most is not None and peak > most:
        said.append(f"{peak} requests were in flight at once, more than the load's {most}")
    return tuple(said)


def _contradicting(cells: Sequence[RequestColumns]) -> list[str]:
    """An answer that came whole and contradicts itself counts, and a reader should know."""
    count = sum(int((of.has_why & of.measured).sum()) for of in cells)
    first = next((of.first_contradiction for of in cells if of.first_contradiction), None)
    if first is None:
        return []
    done = sum(int(of.measured.sum()) for of in cells)
    return [f"{count} of {done} answers contradict themselves; the first: {' '.join(first.split())[:200]}"]


def samples_needed(metric: str) -> int:
    """Values that a percentile must be taken from to be gated; 1 for what is not a percentile."""
    return next((needed for name, needed in SAMPLES_NEEDED.items() if f"_{name}_" in metric), 1)
