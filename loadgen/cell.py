"""One cell over HTTP: an arm at a concurrency in a repeat, driven, watched, and summed up in a CellRecord."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from engines.contract import Endpoint
from loadgen.asked_lengths import AskedLengths
from loadgen.client import Client, ClientSettings
from loadgen.counters import (
    CounterReset,
    EngineCounters,
    EngineLag,
    Scrape,
    counters_between,
    lag_between,
    read_metrics,
)
from loadgen.driving import drive_here
from loadgen.lockstep import Alone
from loadgen.paced import Driven
from loadgen.reads import Clock
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.scribe import Scribe
from loadgen.share import Share
from loadgen.stamps import KNOWN
from loadgen.stream import Prompts, RunningCell
from loadgen.worker_count import workers_of
from loadgen.worker_process import Job
from loadgen.workers import Crew
from suites.grammar import counted
from suites.model import LoadSpec

# An embedded engine that cannot keep up with its model is not a slow engine but no engine at all. Lateness
# that does not grow moves no throughput, only tails of gaps: it is said (docs/decisions/0006).
LATE_SHARE = 0.5  # mean lateness of a step, of the mean modelled step: more is behind
SAID_SHARE = 0.1  # more than this is noted
STALL_SHARE = 0.05  # its worst lateness, of the cell,
STALL_S = 0.02  # once that is more than this


def _ignore() -> None:
    return None


async def drive_cell(
    endpoint: Endpoint,
    key: CellKey,
    load: LoadSpec,
    prompts: Prompts,
    *,
    on_record: Callable[[RequestRecord], None],
    on_progress: Callable[[], None] = _ignore,
    clock: Clock = time.perf_counter,
    settings: ClientSettings | None = None,
    on_text: Callable[[str, str], None] | None = None,
) -> CellRecord:
    """Drives the cell and returns its record; each request's record goes to `on_record` as it ends.

    `on_progress` is called once a request. Cancelled, it keeps a record of every request under way, then
    raises CancelledError. What `on_record` raises ends the cell likewise.
    """
    settings = settings or ClientSettings.of(load)
    workers = workers_of(load, key.concurrency, prompts.mean_tokens) if clock in KNOWN else 1
    async with Client(endpoint, settings, clock) as client:
        before = read_metrics(await client.get("/metrics"))
        tally: Tally
        lag: Lag
        if workers > 1:
            job = Job(endpoint, key, load, prompts, settings, Share(0, workers), on_text is not None)
            tally = lag = crew = Crew(job, on_record, on_progress, on_text)
            how = await crew.drive()
        else:
            tally = scribe = Scribe(on_record, clock)
            alone = Alone(clock)
            cell = RunningCell(client, key, load, prompts, scribe, clock, on_progress, alone, on_text)
            how, lag = await drive_here(cell)
            how = replace(how, notes=(*how.notes, *lag.notes()))
        after = read_metrics(await client.get("/metrics"))
    return CellSummary(key, load, how, tally, before, after, lag).record()


class Tally(Protocol):
    """How requests ended: a Scribe's."""

    outcomes: Counter[Outcome]
    first_failure: str | None
    lengths: AskedLengths


class Lag(Protocol):
    """How the load generator kept up: a LoopLag's."""

    @property
    def worst_s(self) -> float | None: ...

    def faults(self, cell_s: float) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True)
class CellSummary:
    """What is known of a cell that has been driven, whoever drove it; `record()` judges it."""

    key: CellKey
    load: LoadSpec
    driven: Driven
    scribe: Tally
    before: Scrape
    after: Scrape
    loop_lag: Lag

    def record(self) -> CellRecord:
        scraped, reset = _counted(self.before.counters, self.after.counters)
        counters = scraped if scraped.possible else EngineCounters()
        lag = lag_between(self.before.lag, self.after.lag)
        window = self.driven.window
        cell_s = window.end_s - window.start_s
        invalid = (
            *no_success(self.scribe),
            *filter(None, (window.fault, reset)),
            *engine_faults(lag, cell_s),
            *self.scribe.lengths.faults(),
            *governor_faults((self.after.governor_errors or 0) - (self.before.governor_errors or 0)),
            *self.loop_lag.faults(cell_s),
        )
        return CellRecord(
            arm=self.key.arm,
            concurrency=self.key.concurrency,
            repeat=self.key.repeat,
            window_start_s=window.start_s,
            window_end_s=window.end_s,
            clock="wall",
            invalid=tuple(invalid),
            notes=(
                *self.driven.notes,
                *queue_notes(self.load.most_in_flight(self.key.concurrency), self.after.max_num_seqs),
                *odd_counters(scraped),
                *self.scribe.lengths.notes(),
                *lateness_notes(lag),
            ),
            lag_s=None if lag is None else lag.max_s,
            client_lag_s=self.loop_lag.worst_s,
            drafts=counters.drafts,
            draft_tokens=counters.draft_tokens,
            accepted_tokens=counters.accepted_tokens,
            accepted_by_position=counters.accepted_by_position,
            reached_by_position=counters.reached_by_position,
            requests=self.scribe.outcomes.total(),
            phase_starts_s=self.driven.phase_starts_s,
        )


def no_success(scribe: Tally) -> Iterable[str]:
    """A cell in which nothing succeeded says nothing about speed."""
    if scribe.outcomes[Outcome.DONE]:
        return ()
    total, first = counted(scribe.outcomes.total(), "request"), scribe.first_failure or "none was sent"
    return (f"none of {total} succeeded; the first: {first}",)


def engine_faults(lag: EngineLag | None, cell_s: float) -> Iterable[str]:
    """Reasons why an embedded engine's timing was not its model's."""
    if lag is None or lag.steps <= 0:
        return ()
    late_s, step_s = lag.late_s / lag.steps, lag.modelled_s / lag.steps
    if late_s > LATE_SHARE * step_s:
        return (
            f"the embedded engine fell behind its model: steps of {step_s * 1e3:.2f} ms ended "
            f"{late_s * 1e3:.2f} ms late on average; run it on a quieter machine or in virtual time",
        )
    if lag.max_s > max(STALL_S, STALL_SHARE * cell_s):
        return (
            f"the embedded engine stalled for {lag.max_s:.2f} s of {cell_s:.2f} s; is the machine shared?",
        )
    return ()


def governor_faults(errors: int) -> Iterable[str]:
    """An engine survives a policy that fails; a cell in which that happened is not of this policy."""
    if errors <= 0:
        return ()
    return (
        f"policy not applied: {counted(errors, 'call')} of the governor failed and the engine went on at "
        "k_max; mend the governor (the engine's log has the traceback)",
    )


def lateness_notes(lag: EngineLag | None) -> Iterable[str]:
    """Lateness that leaves throughput alone, but stands in TTFT and in the tails of gaps between tokens."""
    if lag is None or lag.steps <= 0 or lag.late_s <= SAID_SHARE * lag.modelled_s:
        return ()
    share = lag.late_s / lag.modelled_s
    return (
        f"tokens left the embedded engine late by {share:.0%} of a step on average: it is in the ITL tails",
    )


def queue_notes(concurrency: int | None, max_num_seqs: int | None) -> Iterable[str]:
    """Concurrency above what the engine runs at once is allowed; the reader should know. None: no limit."""
    if max_num_seqs is None or concurrency is None or concurrency <= max_num_seqs:
        return ()
    queued = concurrency - max_num_seqs
    verb = "queues" if queued == 1 else "queue"
    return (f"{queued} of {concurrency} streams {verb}: max_num_seqs is {max_num_seqs}",)


def odd_counters(counters: EngineCounters) -> Iterable[str]:
    """Acceptance length is 1 + the sum of the rates by position, or the engine counts otherwise."""
    if not counters.possible:
        return (
            f"the engine's counters cannot be: {counters.accepted_tokens} accepted of "
            f"{counters.draft_tokens} drafted; acceptance is unknown",
        )
    length, rates = counters.acceptance_length, counters.rate_by_position
    if length is None or rates is None or abs(length - 1.0 - sum(rates)) < 1e-6 * length:
        return ()
    return (
        f"the engine's counters disagree: acceptance length {length:.3f}, by position {1.0 + sum(rates):.3f}",
    )


def _counted(before: EngineCounters, after: EngineCounters) -> tuple[EngineCounters, str]:
    try:
        return counters_between(before, after), ""
    except CounterReset as reset:
        return EngineCounters(), str(reset)
