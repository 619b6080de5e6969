"""Throughput: output tokens over time, as spans that add up: sum of tokens / sum of seconds.

burst   a span a burst: the output tokens of its `done` requests / (last done - first due).
closed  the steady-state window in SLICES equal spans: tokens that *arrived* in it, from requests that were
        done or that this client cut off at the end of the cell, warm-up included: what counts is the arrival.
open    the same over the load's window: from the end of the warm-up to the end of the load, so not the time
        in which the backlog drains. Below capacity it is the offered load, beyond it what the engine can do.

A load with phases (closed or open): its window runs from the first phase that does not warm up to the end of
the last; reports.course gives each of them apart: tokens that arrived in it / its seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.records import CellRecord, Outcome, RequestRecord
from reports.metrics import Records, measured
from reports.samples import FloatArray

SLICES = 20
COUNTED = (Outcome.DONE, Outcome.CANCELLED)


@dataclass(frozen=True, slots=True, eq=False)
class TokenSpans:
    """`tokens`, `seconds` float64 (U,): what the figure is summed from. `note`: how tokens were placed."""

    tokens: FloatArray
    seconds: FloatArray
    note: str | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """None when no time passed."""
        seconds = float(self.seconds.sum())
        return float(self.tokens.sum()) / seconds if seconds > 0 else None


def token_spans(records: Records, cell: CellRecord, mode: str) -> TokenSpans | None:
    """The spans of one cell and repeat; None when a token count is unknown or nothing was done."""
    return _SPANS[mode](records, cell)


def bursts(records: Records) -> list[list[RequestRecord]]:
    """Requests in bursts: a new one begins with the first request due after all before it ended."""
    found: list[list[RequestRecord]] = []
    free_s = -np.inf
    for record in sorted(records, key=lambda record: record.due_s):
        if record.due_s >= free_s:
            found.append([])
        found[-1].append(record)
        free_s = max(free_s, record.due_s if record.done_s is None else record.done_s)
    return found


def _burst_spans(records: Records, cell: CellRecord) -> TokenSpans | None:
    done = measured(records)
    if not done or any(record.output_tokens is None or record.done_s is None for record in done):
        return None
    groups = [measured(group) for group in bursts([record for record in records if not record.warmup])]
    groups = [group for group in groups if group]
    tokens = [sum(record.output_tokens or 0 for record in group) for group in groups]
    seconds = [
        max(record.done_s or 0.0 for record in group) - min(record.due_s for record in group)
        for group in groups
    ]
    return TokenSpans(np.array(tokens, dtype=np.float64), np.array(seconds, dtype=np.float64))


def _window_spans(records: Records, cell: CellRecord) -> TokenSpans | None:
    if cell.window_end_s <= cell.window_start_s or not measured(records):
        return None
    arrivals = token_arrivals(records)
    if arrivals is None:
        return None
    times, tokens, note = arrivals
    edges = np.linspace(cell.window_start_s, cell.window_end_s, SLICES + 1)
    counts, _ = np.histogram(times, bins=edges, weights=tokens)
    return TokenSpans(counts.astype(np.float64), np.diff(edges), note)


_SPANS = {"burst": _burst_spans, "closed": _window_spans, "open": _window_spans}


def token_arrivals(records: Records) -> tuple[FloatArray, FloatArray, str | None] | None:
    """(times, tokens, note): when output tokens arrived. Totals without per-chunk counts are spread evenly.

    A request that was cut off before its usage came is taken at the mean tokens per chunk of the others.
    None when no request of the cell has a known count.
    """
    counted = [record for record in records if record.outcome in COUNTED and record.chunk_times_s]
    mean = _mean_tokens_per_chunk(counted)
    if mean is None:
        return None
    spread = sum(record.chunk_tokens is None for record in counted)
    note = (
        f"tokens of {spread} of {len(counted)} requests spread evenly over their chunks" if spread else None
    )
    times = np.concatenate([np.asarray(record.chunk_times_s, dtype=np.float64) for record in counted])
    return times, np.concatenate([_chunk_weights(record, mean) for record in counted]), note


def peak_tokens_per_s(spans: TokenSpans) -> float | None:
    """The fastest span; never below the mean, because the spans tile the time."""
    timed = spans.seconds > 0
    return float(np.max(spans.tokens[timed] / spans.seconds[timed])) if timed.any() else None


def _mean_tokens_per_chunk(records: Sequence[RequestRecord]) -> float | None:
    known = [record for record in records if record.output_tokens is not None]
    chunks = sum(len(record.chunk_times_s) for record in known)
    return sum(record.output_tokens or 0 for record in known) / chunks if chunks else None


def _chunk_weights(record: RequestRecord, mean: float) -> FloatArray:
    chunks = len(record.chunk_times_s)
    if record.chunk_tokens is not None:
        return np.asarray(record.chunk_tokens, dtype=np.float64)
    each = mean if record.output_tokens is None else record.output_tokens / chunks
    return np.full(chunks, each)
