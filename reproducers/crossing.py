"""Where speculation stops paying: the concurrency at which its ratio to no speculation falls below 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from reports.judgement import Interval, Judgement
from reports.pooled import Throughputs, interval_of_logs
from reports.reproduction import ReproductionSummary
from reproducers.contract import Reproducer
from reproducers.findings import above, below
from reproducers.summary import summary

EVEN: Final = 1.0


def assess_crossing(
    reproducer: Reproducer, judgement: Judgement, throughputs: Throughputs
) -> ReproductionSummary:
    """Reproduced: the subject wins at the lowest concurrency and loses at the highest. The figure is the
    concurrency between them where it breaks even, no ratio."""
    grid = sorted({cell.concurrency for cell in judgement.cells}) or [1]
    ratios = {at: throughputs.ratio(reproducer.subject, "off", (at,)) for at in grid}
    least, most = grid[0], grid[-1]
    findings = (
        above(f"speculation / no speculation at c={least}", ratios[least], EVEN),
        below(f"speculation / no speculation at c={most}", ratios[most], EVEN),
    )
    course = ", ".join(f"{ratio.point:.2f} at c={at}" for at, ratio in ratios.items() if ratio)
    return summary(
        reproducer,
        judgement,
        findings,
        crossing(throughputs, reproducer.subject, grid),
        "concurrency",
        (f"speculation / no speculation: {course}",) if course else (),
        figure_is="breaks even at",
    )


def crossing(throughputs: Throughputs, subject: str, grid: Sequence[int]) -> Interval | None:
    """Interval over repeats of each one's first fall below 1; None where a repeat never falls."""
    found = [
        _first_fall([(at, top / bottom) for at, top, bottom in row])
        for row in _rows(throughputs, subject, grid)
    ]
    logs = [math.log(at) for at in found if at is not None]
    return interval_of_logs(logs, throughputs.confidence) if len(logs) == len(found) else None


def _rows(
    throughputs: Throughputs, subject: str, grid: Sequence[int]
) -> list[list[tuple[int, float, float]]]:
    """A row for each repeat that has every cell of both arms: (concurrency, subject, no speculation)."""
    columns = [(at, throughputs.of(subject, at), throughputs.of("off", at)) for at in grid]
    repeats = min((min(len(top), len(bottom)) for _, top, bottom in columns), default=0)
    whole = all(len(top) == len(bottom) == repeats for _, top, bottom in columns)
    return [[(at, top[r], bottom[r]) for at, top, bottom in columns] for r in range(repeats)] if whole else []


def _first_fall(course: Sequence[tuple[int, float]]) -> float | None:
    """Linear between two concurrencies, in the logarithms of concurrency and ratio."""
    for (low, before), (high, after) in pairwise(course):
        if before >= EVEN > after:
            share = math.log(before) / (math.log(before) - math.log(after))
            return float(low * (high / low) ** share)
    return None
