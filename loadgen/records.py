"""RequestRecord: what one request did, on the client's monotonic clock; and the cell it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Every request ends as exactly one of these; only `done` enters latency and throughput figures."""

    DONE = "done"
    REFUSED = "refused"  # 429 or 503: the server said no; never retried
    FAILED = "failed"  # connection, protocol or server error, an error event inside a 200 stream
    TIMED_OUT = "timed-out"
    TRUNCATED = "truncated"  # the stream ended without a terminal event
    CANCELLED = "cancelled"  # this client gave up (Ctrl-C, end of the cell)


class TokenSource(StrEnum):
    """Where token counts came from. A chunk is never taken for a token."""

    USAGE = "usage"  # totals only: per-chunk counts are unknown
    CONTINUOUS_USAGE = "continuous-usage"
    TOKEN_IDS = "token-ids"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CellKey:
    """One measured point: an arm at a concurrency in a repeat (repeat counts from 0)."""

    arm: str
    concurrency: int
    repeat: int


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Times: seconds on one monotonic clock per run; None = it never happened. Latency counts from `due_s`.

    chunk_times_s    arrival of each content chunk, stamped at the socket read
    chunk_tokens     tokens in each, None where the server did not say
    output_tokens    from the server's usage, None = unknown; prompt_tokens likewise
    conversation     equal for the turns of one, `turn` counts them from 0; None = a request of its own
    """

    request: str
    arm: str
    concurrency: int
    repeat: int
    traffic_class: str
    due_s: float
    sent_s: float | None
    first_byte_s: float | None
    first_token_s: float | None
    done_s: float | None
    chunk_times_s: tuple[float, ...]
    chunk_tokens: tuple[int, ...] | None
    prompt_tokens: int | None
    output_tokens: int | None
    max_tokens: int
    tokens_are: TokenSource
    outcome: Outcome
    why: str | None = None
    warmup: bool = False
    conversation: str | None = None
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One line when a cell ends. `window_*`: steady state, in the records' clock (bursts: the whole cell).

    invalid: reasons why the cell is not of the arm: the *machine or client* spoiled it, the embedded engine
        did not keep its model's time, the governor failed; empty = valid
    notes: things a reader should know ("32 streams queue: max_num_seqs is 16")
    lag_s: worst wall-clock lag the engine reported over the cell, None = not reported
    client_lag_s: worst event-loop lag of the load generator, None in virtual time
    drafts, draft_tokens, accepted_tokens: deltas of the engine's counters over the cell, None = not available
    accepted_by_position, reached_by_position: likewise, per draft position
    requests: records written for the cell, warm-up included: shows lines that a file lost; None = not said
    phase_starts_s: when each phase of the load began, and last when the last one ended; None = no phases
    """

    arm: str
    concurrency: int
    repeat: int
    window_start_s: float
    window_end_s: float
    clock: str  # "wall" | "virtual"
    invalid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lag_s: float | None = None
    client_lag_s: float | None = None
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_by_position: tuple[int, ...] | None = None
    reached_by_position: tuple[int, ...] | None = None
    requests: int | None = None
    phase_starts_s: tuple[float, ...] | None = None
