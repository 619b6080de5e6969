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

from dataclasses import dataclass

import numpy as np

from loadgen.columns import OUTCOMES, RequestColumns
from loadgen.records import CellRecord, Outcome
from reports.samples import FloatArray, IntArray

SLICES = 20
DONE = OUTCOMES.index(Outcome.DONE)
COUNTED = (DONE, OUTCOMES.index(Outcome.CANCELLED))


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


def token_spans(of: RequestColumns, cell: CellRecord, mode: str) -> TokenSpans | None:
    """The spans of one cell and repeat; None when a token count is unknown or nothing was done."""
    return _SPANS[mode](of, cell)


def burst_numbers(of: RequestColumns) -> tuple[IntArray, IntArray]:
    """(requests that are no warm-up, by when they were due; which burst each is in), int64, numbers from 0.

    A new burst begins with the first request due after all before it ended.
    """
    rows = np.flatnonzero(~of.warmup)
    rows = rows[np.argsort(of.due_s[rows], kind="stable")]
    due, done = of.due_s[rows], of.done_s
    ended = np.where(done.known[rows], np.maximum(done.values[rows], due), due)
    free = np.maximum.accumulate(ended)
    begins = np.concatenate([np.zeros(min(1, len(rows)), dtype=np.bool_), due[1:] >= free[:-1]])
    return rows, np.cumsum(begins)


def _burst_spans(of: RequestColumns, cell: CellRecord) -> TokenSpans | None:
    done = of.measured
    if not done.any() or not (of.output_tokens.known & of.done_s.known)[done].all():
        return None
    rows, bursts = burst_numbers(of)
    rows, bursts = rows[done[rows]], bursts[done[rows]]
    starts = np.flatnonzero(np.diff(bursts, prepend=-1))
    tokens = np.add.reduceat(of.output_tokens.values[rows], starts)
    first, last = of.due_s[rows][starts], np.maximum.reduceat(of.done_s.values[rows], starts)
    return TokenSpans(tokens.astype(np.float64), last - first)


def _window_spans(of: RequestColumns, cell: CellRecord) -> TokenSpans | None:
    if cell.window_end_s <= cell.window_start_s or not of.measured.any():
        return None
    arrivals = token_arrivals(of)
    if arrivals is None:
        return None
    times, tokens, note = arrivals
    edges = np.linspace(cell.window_start_s, cell.window_end_s, SLICES + 1)
    counts, _ = np.histogram(times, bins=edges, weights=tokens)
    return TokenSpans(counts.astype(np.float64), np.diff(edges), note)


_SPANS = {"burst": _burst_spans, "closed": _window_spans, "open": _window_spans}


def token_arrivals(of: RequestColumns) -> tuple[FloatArray, FloatArray, str | None] | None:
    """(times, tokens, note): when output tokens arrived. Totals without per-chunk counts are spread evenly.

    A request that this client cut off before its usage came is taken at the mean tokens per chunk of the
    others. None when an answer that came whole has no known count, or no request has one.
    """
    chunks, total = of.chunks, of.output_tokens
    counted = np.isin(of.outcome, COUNTED) & (chunks > 0)
    known = counted & total.known
    spread = counted & ~of.by_chunk
    uncounted = spread & ~total.known
    if not known.any() or (uncounted & (of.outcome == DONE)).any():
        return None
    note = f"tokens of {spread.sum()} of {counted.sum()} requests spread evenly over their chunks"
    if uncounted.any():
        note += f", {uncounted.sum()} of them cut off here and taken at the others' tokens a chunk"
    each = np.full(len(of), int(total.values[known].sum()) / int(chunks[known].sum()))
    each[known] = total.values[known] / chunks[known]
    placed = np.repeat(counted, chunks)
    tokens = of.chunk_tokens[placed].astype(np.float64)
    if spread.any():
        tokens[np.repeat(spread, chunks)[placed]] = np.repeat(each[spread], chunks[spread])
    return of.chunk_times_s[placed], tokens, note if spread.any() else None


def peak_tokens_per_s(spans: TokenSpans) -> float | None:
    """The fastest span; never below the mean, because the spans tile the time."""
    timed = spans.seconds > 0
    return float(np.max(spans.tokens[timed] / spans.seconds[timed])) if timed.any() else None
