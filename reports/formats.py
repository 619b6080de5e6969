"""Numbers as a reader sees them: three digits that matter, ms for durations, a dash for the unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.judgement import CellFigures, Interval

DASH = "\u2013"
UNKNOWN = DASH
RULING_MARKS = {"kept": "✓", "broken": "✗", "inconclusive": "?", "invalid": "!"}


@dataclass(frozen=True, slots=True)
class MetricFormat:
    """How a metric is shown: `scale` turns the stored unit into the shown one."""

    label: str
    unit: str = ""
    scale: float = 1.0


def _durations() -> dict[str, MetricFormat]:
    names = {"ttft": "TTFT", "itl": "ITL", "chunk_gap": "Chunk gap", "tpot": "TPOT", "e2e": "E2E"}
    return {
        f"{name}_{percentile}_s": MetricFormat(f"{label} {percentile}", "ms", 1e3)
        for name, label in names.items()
        for percentile in ("p50", "p95", "p99")
    }


METRIC_FORMATS: dict[str, MetricFormat] = {
    "tokens_per_s": MetricFormat("Throughput", "tokens/s"),
    **_durations(),
    "acceptance_length": MetricFormat("Acceptance length", "tokens/step"),
    "verified_per_emitted": MetricFormat("Verified per emitted token"),
    "refusal_rate": MetricFormat("Refused", "%", 100.0),
    "failure_rate": MetricFormat("Failed", "%", 100.0),
    "switches_per_1k_steps": MetricFormat("K switches", "per 1,000 steps"),
}


def metric_format(metric: str) -> MetricFormat:
    """The format of a metric; one that is not listed is shown under its own name, seconds as ms."""
    fallback = MetricFormat(metric.removesuffix("_s"), "ms", 1e3) if metric.endswith("_s") else None
    if metric.endswith("_per_s"):
        fallback = None
    return METRIC_FORMATS.get(metric) or fallback or MetricFormat(metric)


def known(value: float | None) -> bool:
    """False for None and for anything that is not a finite number."""
    return value is not None and math.isfinite(value)


def number(value: float | None) -> str:
    """Three significant digits, whole numbers from 100 on with thousands separated; a dash if unknown."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size >= 100 or value == 0:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 0.01:
        return f"{value:.2f}"
    return f"{value:.1g}"


def shown(metric: str, value: float | None) -> str:
    """A value of a metric in the unit that is shown, without the unit."""
    return number(None if value is None else value * metric_format(metric).scale)


def ratio(value: float | None) -> str:
    """Two decimals, as budgets are written."""
    return f"{value:.2f}" if value is not None and math.isfinite(value) else UNKNOWN


def ratio_interval(interval: Interval | None) -> str:
    """Point, then low to high in brackets."""
    if interval is None or not known(interval.point):
        return UNKNOWN
    return f"{ratio(interval.point)} ({ratio(interval.low)}{DASH}{ratio(interval.high)})"


def cell_point(cell: CellFigures, metric: str) -> float | None:
    """The point estimate, also where one repeat shows no spread and so has no interval."""
    interval = cell.figures.get(metric)
    point = interval.point if interval else cell.points.get(metric)
    return point if known(point) else None


def cell_text(cell: CellFigures, metric: str) -> str:
    """The cell's figure: point and interval, the bare point where the interval is unknown, or a dash."""
    interval = cell.figures.get(metric)
    return metric_interval(metric, interval) if interval else shown(metric, cell_point(cell, metric))


def metric_interval(metric: str, interval: Interval | None) -> str:
    """Point, then low to high in brackets, in the unit that is shown."""
    if interval is None or not known(interval.point):
        return UNKNOWN
    low, high = shown(metric, interval.low), shown(metric, interval.high)
    return f"{shown(metric, interval.point)} ({low}{DASH}{high})"


def percent(value: float | None) -> str:
    """A share as a whole percentage."""
    return f"{100 * value:.0f} %" if value is not None and math.isfinite(value) else UNKNOWN
