"""How a load went over time: each phase apart, and an open loop's backlog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from loadgen.columns import OUTCOMES, RequestColumns
from loadgen.records import CellRecord, Outcome
from reports.run_folder import CellData, RunFolder, read_run
from reports.samples import FloatArray
from reports.throughput import token_arrivals


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """One phase of one cell and repeat, seconds from the cell's first phase.

    tokens_per_s  tokens that arrived in the phase / its seconds, None = not known
    requests, ttft_p50_s  of the requests that were due in it, done, and no warm-up
    """

    start_s: float
    end_s: float
    tokens_per_s: float | None
    requests: int
    ttft_p50_s: float | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Requests that are due and have not ended: `count[i]` from `time_s[i]` after the first due time on."""

    time_s: tuple[float, ...]
    count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoadCourse:
    """A cell in its first repeat. `phases` () = none; `backlog` None = no open loop."""

    arm: str
    concurrency: int
    phases: tuple[PhaseFigures, ...]
    backlog: Backlog | None


def phase_figures(of: RequestColumns, cell: CellRecord) -> tuple[PhaseFigures, ...]:
    """Every phase that has a start and an end; () for a load without phases."""
    starts = cell.phase_starts_s or ()
    arrivals = token_arrivals(of) if starts else None
    return tuple(
        PhaseFigures(
            start_s=start_s - starts[0],
            end_s=end_s - starts[0],
            tokens_per_s=_rate(arrivals and arrivals[:2], start_s, end_s),
            requests=int((due := of.measured & (start_s <= of.due_s) & (of.due_s < end_s)).sum()),
            ttft_p50_s=_median((of.first_token_s.values - of.due_s)[due & of.first_token_s.known]),
        )
        for start_s, end_s in pairwise(starts)
        if end_s > start_s
    )


def phase_note(phases: Sequence[PhaseFigures]) -> tuple[str, ...]:
    """One line a reader sees beside the cell's figures; () without phases."""
    if not phases:
        return ()
    rates = ["?" if phase.tokens_per_s is None else f"{phase.tokens_per_s:,.4g}" for phase in phases]
    return (f"by phase: {', '.join(rates)} tokens/s",)


def backlog(of: RequestColumns) -> Backlog:
    """+1 when a request is due, -1 when it is done; one that failed leaves with the last that came of it."""
    if not len(of):
        return Backlog((), ())
    times = np.concatenate([of.due_s, np.maximum(of.due_s, _left_s(of))])
    changes = np.repeat([1, -1], len(of))
    order = np.lexsort((-changes, times))
    since = times[order] - times[order[0]]
    return Backlog(tuple(since.tolist()), tuple(np.cumsum(changes[order]).tolist()))


def load_courses(run_dir: Path | RunFolder) -> tuple[LoadCourse, ...]:
    """First repeats of every cell that has phases or an open loop; () for plain loads."""
    run = read_run(run_dir)
    if run.suite is None or (run.suite.load.phases is None and run.suite.load.mode != "open"):
        return ()
    is_open = run.suite.load.mode == "open"
    first = {(key.arm, key.concurrency): key for key in sorted(run.cells, key=lambda key: -key.repeat)}
    return tuple(_course(run.cells[key].loaded(), is_open) for _, key in sorted(first.items()))


def _course(cell: CellData, is_open: bool) -> LoadCourse:
    return LoadCourse(
        cell.record.arm,
        cell.record.concurrency,
        phase_figures(cell.requests, cell.record),
        backlog(cell.requests) if is_open else None,
    )


def _left_s(of: RequestColumns) -> FloatArray:
    left = np.where(of.sent_s.known, of.sent_s.values, of.due_s)
    spoke = of.chunks > 0
    left[spoke] = of.chunk_times_s[of.chunk_ends[1:][spoke] - 1]
    done = of.done_s.known & (of.outcome == OUTCOMES.index(Outcome.DONE))
    return np.where(done, of.done_s.values, left)


def _rate(arrivals: tuple[FloatArray, FloatArray] | None, start_s: float, end_s: float) -> float | None:
    if arrivals is None:
        return None
    times, tokens = arrivals
    return float(tokens[(times >= start_s) & (times < end_s)].sum()) / (end_s - start_s)


def _median(values: FloatArray) -> float | None:
    return float(np.median(values)) if len(values) else None
