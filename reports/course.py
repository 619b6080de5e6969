"""How a load went over time: each phase apart, and an open loop's backlog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from loadgen.records import CellRecord, Outcome, RequestRecord
from reports.metrics import Records, measured
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


def phase_figures(records: Records, cell: CellRecord) -> tuple[PhaseFigures, ...]:
    """Every phase that has a start and an end; () for a load without phases."""
    starts = cell.phase_starts_s or ()
    arrivals = token_arrivals(records)
    return tuple(
        PhaseFigures(
            start_s=start_s - starts[0],
            end_s=end_s - starts[0],
            tokens_per_s=_rate(arrivals and arrivals[:2], start_s, end_s),
            requests=len(due := [r for r in measured(records) if start_s <= r.due_s < end_s]),
            ttft_p50_s=_median([r.first_token_s - r.due_s for r in due if r.first_token_s is not None]),
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


def backlog(records: Records) -> Backlog:
    """+1 when a request is due, -1 when it is done; one that failed leaves with the last that came of it."""
    events = [(record.due_s, 1) for record in records]
    events += [(max(record.due_s, _left_s(record)), -1) for record in records]
    if not events:
        return Backlog((), ())
    times, changes = zip(*sorted(events, key=lambda event: (event[0], -event[1])), strict=True)
    counts = np.cumsum(changes)
    return Backlog(tuple(time - times[0] for time in times), tuple(counts.tolist()))


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


def _left_s(record: RequestRecord) -> float:
    if record.outcome is Outcome.DONE and record.done_s is not None:
        return record.done_s
    return record.chunk_times_s[-1] if record.chunk_times_s else record.sent_s or record.due_s


def _rate(arrivals: tuple[FloatArray, FloatArray] | None, start_s: float, end_s: float) -> float | None:
    if arrivals is None:
        return None
    times, tokens = arrivals
    return float(tokens[(times >= start_s) & (times < end_s)].sum()) / (end_s - start_s)


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None
