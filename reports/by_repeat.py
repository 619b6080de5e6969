"""Each repeat's own value of every metric: what distributions over runs and pooled figures are made of."""

from __future__ import annotations

import numpy as np

from loadgen.records import CellRecord
from reports.amplification import verified_and_emitted
from reports.metrics import LATENCIES, acceptance_length, jain_index
from reports.run_folder import CellData
from reports.starvation import resumption
from reports.statistics import Pool
from reports.step_series import StepSeries, switch_count, unapplied_share
from reports.throughput import token_spans
from suites.measures import PERCENTILES


def values_by_repeat(pool: Pool, mode: str) -> dict[int, dict[str, float]]:
    """Repeat -> metric -> value, of the repeats that nothing spoiled; a metric is absent when unknown."""
    return {
        repeat: _values(cell, pool.steps.get(repeat), mode)
        for repeat, cell in pool.repeats.items()
        if not cell.record.invalid
    }


def _values(cell: CellData, steps: StepSeries | None, mode: str) -> dict[str, float]:
    spans = token_spans(cell.requests, cell.record, mode)
    found = {
        "tokens_per_s": spans.tokens_per_s if spans is not None else None,
        "jain_index": jain_index(cell.requests),
        "acceptance_length": acceptance_length([cell.record]),
        "verified_per_emitted": _by_counters(cell.record),
    }
    if steps is not None:
        emitted = int(steps.emitted.sum())
        found["verified_per_emitted"] = float(steps.verified.sum() / emitted) if emitted else None
        found["switches_per_1k_steps"] = switch_count(steps, mode).per_1k_steps
        found["unapplied_share"] = unapplied_share(steps)
        drafts = resumption(steps)
        found["acceptance_resumed"] = drafts.resumed_rate
        found["acceptance_settled"] = drafts.settled_rate
    for family, metric in LATENCIES.items():
        of = metric(cell.requests)
        if of is not None:
            points = np.quantile(np.repeat(of.values, of.counts), list(PERCENTILES.values()))
            found |= {f"{family}_{name}_s": float(at) for name, at in zip(PERCENTILES, points, strict=True)}
    return {name: value for name, value in found.items() if value is not None}


def _by_counters(cell: CellRecord) -> float | None:
    """Drafts verified per token, where no step records say it."""
    counted = verified_and_emitted(cell)
    return counted and counted[0] / counted[1]
