"""Metrics: pure functions from request records to values. Each states its formula.

Latencies take requests that are `done` and not warm-up. Unknown is None. No chunk is taken for a token.
docs/glossary.md has the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from loadgen.records import CellRecord, Outcome, RequestRecord
from reports.samples import FloatArray, IntArray, Samples, samples

Records = Sequence[RequestRecord]

FAILURES = (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.TRUNCATED)


def measured(records: Records) -> list[RequestRecord]:
    """Requests that enter latencies: done, not warm-up."""
    return [record for record in records if record.outcome is Outcome.DONE and not record.warmup]


def outcome_counts(records: Records) -> dict[str, int]:
    """Outcome -> requests, warm-up left out; every outcome that occurred."""
    return dict(Counter(str(record.outcome) for record in records if not record.warmup))


def answered(counts: dict[str, int]) -> int:
    """Requests that the server had its chance at: all but those that this client gave up."""
    return sum(count for outcome, count in counts.items() if outcome != Outcome.CANCELLED)


def refused(counts: dict[str, int]) -> int:
    """Requests that the server declined (429, 503)."""
    return counts.get(Outcome.REFUSED, 0)


def failed(counts: dict[str, int]) -> int:
    """Requests that failed, timed out or ended without a terminal event."""
    return sum(counts.get(outcome, 0) for outcome in FAILURES)


def ttft_s(records: Records) -> Samples | None:
    """TTFT = first_token_s - due_s, one value a request."""
    return _per_request(records, lambda record: _difference(record.first_token_s, record.due_s))


def e2e_s(records: Records) -> Samples | None:
    """E2E = done_s - due_s, one value a request."""
    return _per_request(records, lambda record: _difference(record.done_s, record.due_s))


def tpot_s(records: Records) -> Samples | None:
    """TPOT = (last chunk - first chunk) / (output_tokens - 1), as vLLM, SGLang and AIPerf publish it.

    One value a request of two tokens or more. A first chunk of several tokens makes it look faster.
    """

    def pace(record: RequestRecord) -> float | None:
        times, tokens = record.chunk_times_s, record.output_tokens
        return (times[-1] - times[0]) / (tokens - 1) if tokens is not None and tokens > 1 and times else None

    return _per_request(records, pace)


def chunk_gap_s(records: Records) -> Samples | None:
    """Chunk gap = time between consecutive content chunks, one value a gap, whatever they hold."""
    kept = measured(records)
    times, units = _chunks(kept)
    inside = units[1:] == units[:-1]
    gaps = np.diff(times)[inside]
    return samples(gaps, np.ones(len(gaps), dtype=np.int64), units[1:][inside], len(kept))


def itl_s(records: Records) -> Samples | None:
    """ITL = gap / n for each of the n tokens of a chunk after the first: n samples of gap / n.

    Gaps are between chunks that hold tokens. None when any request lacks its per-chunk counts.
    """
    kept = measured(records)
    if any(record.chunk_tokens is None for record in kept):
        return None
    times, units = _chunks(kept)
    tokens = np.fromiter(chain.from_iterable(record.chunk_tokens or () for record in kept), dtype=np.int64)
    holding = tokens > 0
    times, units, tokens = times[holding], units[holding], tokens[holding]
    inside = units[1:] == units[:-1]
    counts = tokens[1:][inside]
    return samples(np.diff(times)[inside] / counts, counts, units[1:][inside], len(kept))


LATENCIES: dict[str, Callable[[Records], Samples | None]] = {
    "ttft": ttft_s,
    "itl": itl_s,
    "chunk_gap": chunk_gap_s,
    "tpot": tpot_s,
    "e2e": e2e_s,
}


def jain_index(records: Records) -> float | None:
    """Jain's fairness of the requests' own speeds x = tokens / E2E: (sum x)^2 / (n sum x^2), 1/n .. 1."""
    speeds = [
        record.output_tokens / (record.done_s - record.due_s)
        for record in measured(records)
        if record.output_tokens is not None and record.done_s is not None and record.done_s > record.due_s
    ]
    squares = sum(speed * speed for speed in speeds)
    return sum(speeds) ** 2 / (len(speeds) * squares) if squares > 0 else None


def peak_concurrency(records: Records) -> int:
    """Most requests in flight at once, by sent_s and done_s; an end and a start at once do not overlap."""
    spans = [(record.sent_s, record.done_s) for record in records if record.sent_s is not None]
    events = [(sent, 1) for sent, _ in spans] + [(done, -1) for _, done in spans if done is not None]
    running = np.cumsum([step for _, step in sorted(events)])
    return int(running.max()) if len(running) else 0


def acceptance_length(cells: Sequence[CellRecord]) -> float | None:
    """1 + accepted / drafts from the engine's counters: tokens a verification emits, bonus included.

    1.0 when nothing was drafted; None when any cell lacks the counters.
    """
    pairs = [(cell.accepted_tokens, cell.drafts) for cell in cells]
    if not pairs or any(accepted is None or drafts is None for accepted, drafts in pairs):
        return None
    drafts = sum(drafts or 0 for _, drafts in pairs)
    return 1.0 + sum(accepted or 0 for accepted, _ in pairs) / drafts if drafts else 1.0


def acceptance_by_position(cells: Sequence[CellRecord]) -> tuple[float | None, ...]:
    """Unconditional rate a_p = accepted at p / drafts, as vLLM has it; acceptance length = 1 + sum.

    () without counters or without drafts: a rate of nothing is unknown.
    """
    rows = [cell.accepted_by_position for cell in cells]
    drafts = sum(cell.drafts or 0 for cell in cells)
    if not drafts or any(row is None for row in rows):
        return ()
    width = max(len(row or ()) for row in rows)
    return tuple(sum(_at(row or (), position) for row in rows) / drafts for position in range(width))


def tokens_per_chunk_by_class(records: Records) -> dict[str, float | None]:
    """Traffic class -> tokens per chunk after a request's first: acceptance length where a chunk is a step.

    None for a class with a request whose per-chunk counts are unknown, or without a second chunk.
    """
    totals: dict[str, list[int] | None] = {}
    for record in measured(records):
        total = totals.setdefault(record.traffic_class, [0, 0])
        if record.chunk_tokens is None:
            totals[record.traffic_class] = None
        elif total is not None:
            rest = [count for count in record.chunk_tokens if count > 0][1:]
            total[0] += sum(rest)
            total[1] += len(rest)
    return {
        name: total[0] / total[1] if total and total[1] else None for name, total in sorted(totals.items())
    }


def _at(row: Sequence[int], position: int) -> int:
    return row[position] if position < len(row) else 0


def _difference(end: float | None, start: float) -> float | None:
    return None if end is None else end - start


def _per_request(records: Records, value: Callable[[RequestRecord], float | None]) -> Samples | None:
    kept = measured(records)
    found = [(value(record), index) for index, record in enumerate(kept)]
    known = [(item, index) for item, index in found if item is not None]
    return samples(
        values=np.array([item for item, _ in known], dtype=np.float64),
        counts=np.ones(len(known), dtype=np.int64),
        units=np.array([index for _, index in known], dtype=np.int64),
        n_units=len(kept),
    )


def _chunks(records: Records) -> tuple[FloatArray, IntArray]:
    """(times, whose) of all chunks, end to end: float64 (N,), and the number of the request, int64 (N,)."""
    lengths = [len(record.chunk_times_s) for record in records]
    times = np.fromiter(chain.from_iterable(record.chunk_times_s for record in records), dtype=np.float64)
    return times, np.repeat(np.arange(len(lengths)), np.array(lengths, dtype=np.int64))
