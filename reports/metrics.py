"""Metrics: pure functions from the columns of requests to values. Each states its formula.

Latencies take requests that are `done` and not warm-up. Unknown is None. No chunk is taken for a token.
docs/glossary.md has the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from loadgen.columns import OUTCOMES, BoolArray, RequestColumns
from loadgen.records import CellRecord, Outcome
from reports.samples import FloatArray, IntArray, Samples, samples

FAILURES = (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.TRUNCATED)


def outcome_counts(cells: Iterable[RequestColumns]) -> dict[str, int]:
    """Outcome -> requests, warm-up left out; every outcome that occurred, in the order in which it did."""
    counts: Counter[str] = Counter()
    for of in cells:
        codes, first, times = np.unique(of.outcome[~of.warmup], return_index=True, return_counts=True)
        for place in np.argsort(first):
            counts[str(OUTCOMES[codes[place]])] += int(times[place])
    return dict(counts)


def answered(counts: dict[str, int]) -> int:
    """Requests that the server had its chance at: all but those that this client gave up."""
    return sum(count for outcome, count in counts.items() if outcome != Outcome.CANCELLED)


def refused(counts: dict[str, int]) -> int:
    """Requests that the server declined (429, 503)."""
    return counts.get(Outcome.REFUSED, 0)


def failed(counts: dict[str, int]) -> int:
    """Requests that failed, timed out or ended without a terminal event."""
    return sum(counts.get(outcome, 0) for outcome in FAILURES)


def ttft_s(of: RequestColumns) -> Samples | None:
    """TTFT = first_token_s - due_s, one value a request."""
    return _per_request(of, of.first_token_s.values - of.due_s, of.first_token_s.known)


def e2e_s(of: RequestColumns) -> Samples | None:
    """E2E = done_s - due_s, one value a request."""
    return _per_request(of, of.done_s.values - of.due_s, of.done_s.known)


def tpot_s(of: RequestColumns) -> Samples | None:
    """TPOT = (last chunk - first chunk) / (output_tokens - 1), as vLLM, SGLang and AIPerf publish it.

    One value a request of two tokens or more. A first chunk of several tokens makes it look faster.
    """
    tokens = of.output_tokens
    paced = tokens.known & (tokens.values > 1) & (of.chunks > 0)
    values = np.zeros(len(of))
    first, last = of.chunk_ends[:-1][paced], of.chunk_ends[1:][paced] - 1
    values[paced] = (of.chunk_times_s[last] - of.chunk_times_s[first]) / (tokens.values[paced] - 1)
    return _per_request(of, values, paced)


def chunk_gap_s(of: RequestColumns) -> Samples | None:
    """Chunk gap = time between consecutive content chunks, one value a gap, whatever they hold."""
    kept, units = _measured_chunks(of)
    inside = units[1:] == units[:-1]
    gaps = np.diff(of.chunk_times_s[kept])[inside]
    return samples(gaps, np.ones(len(gaps), dtype=np.int64), units[1:][inside], int(of.measured.sum()))


def itl_s(of: RequestColumns) -> Samples | None:
    """ITL = gap / n for each of the n tokens of a chunk after the first: n samples of gap / n.

    Gaps are between chunks that hold tokens. None when any request lacks its per-chunk counts.
    """
    if not of.by_chunk[of.measured].all():
        return None
    kept, units = _measured_chunks(of)
    tokens = of.chunk_tokens[kept]
    holding = tokens > 0
    times, units, tokens = of.chunk_times_s[kept][holding], units[holding], tokens[holding]
    inside = units[1:] == units[:-1]
    counts = tokens[1:][inside].astype(np.int64)
    return samples(np.diff(times)[inside] / counts, counts, units[1:][inside], int(of.measured.sum()))


LATENCIES: dict[str, Callable[[RequestColumns], Samples | None]] = {
    "ttft": ttft_s,
    "itl": itl_s,
    "chunk_gap": chunk_gap_s,
    "tpot": tpot_s,
    "e2e": e2e_s,
}


def jain_index(of: RequestColumns) -> float | None:
    """Jain's fairness of the requests' own speeds x = tokens / E2E: (sum x)^2 / (n sum x^2), 1/n .. 1."""
    seconds = of.done_s.values - of.due_s
    kept = of.measured & of.output_tokens.known & of.done_s.known & (seconds > 0)
    speeds = of.output_tokens.values[kept] / seconds[kept]
    squares = _sum(speeds * speeds)
    return _sum(speeds) ** 2 / (len(speeds) * squares) if squares > 0 else None


def peak_concurrency(of: RequestColumns) -> int:
    """Most requests in flight at once, by sent_s and done_s; an end and a start at once do not overlap."""
    sent, done = of.sent_s, of.done_s
    starts, ends = np.sort(sent.values[sent.known]), np.sort(done.values[sent.known & done.known])
    running = np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")
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


def tokens_per_chunk_by_class(cells: Sequence[RequestColumns]) -> dict[str, float | None]:
    """Traffic class -> tokens per chunk after a request's first: acceptance length where a chunk is a step.

    None for a class with a request whose per-chunk counts are unknown, or without a second chunk.
    """
    totals: dict[str, list[int]] = {}
    unknown: set[str] = set()
    for of in cells:
        classes = of.traffic_class
        tokens, chunks = _after_first(of)
        for number in np.unique(classes[of.measured]):
            own = of.measured & (classes == number)
            total = totals.setdefault(of.classes[number], [0, 0])
            total[0] += int(tokens[own].sum())
            total[1] += int(chunks[own].sum())
            if not of.by_chunk[own].all():
                unknown.add(of.classes[number])
    return {
        name: None if name in unknown or not chunks else tokens / chunks
        for name, (tokens, chunks) in sorted(totals.items())
    }


def _after_first(of: RequestColumns) -> tuple[IntArray, IntArray]:
    """(tokens, chunks) of each request after its first chunk that holds a token: int64 (R,)."""
    holding = np.flatnonzero(of.chunk_tokens > 0)
    request = np.searchsorted(of.chunk_ends, holding, side="right") - 1
    later = np.flatnonzero(request[1:] == request[:-1]) + 1
    tokens, chunks = np.zeros(len(of), dtype=np.int64), np.bincount(request[later], minlength=len(of))
    np.add.at(tokens, request[later], of.chunk_tokens[holding[later]])
    return tokens, chunks


def _at(row: Sequence[int], position: int) -> int:
    return row[position] if position < len(row) else 0


def _sum(values: FloatArray) -> float:
    """One after the other, as it has always been summed: a figure of an old run stays what it was."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def _per_request(of: RequestColumns, values: FloatArray, known: BoolArray) -> Samples | None:
    kept = of.measured
    units = np.flatnonzero(known[kept])
    ones = np.ones(len(units), dtype=np.int64)
    return samples(values[kept & known], ones, units, int(kept.sum()))


def _measured_chunks(of: RequestColumns) -> tuple[BoolArray, IntArray]:
    """(chunks of measured requests, whose each is among those): bool (N,), int64 (as many as are true)."""
    kept, lengths = of.measured, of.chunks
    return np.repeat(kept, lengths), np.repeat(np.arange(int(kept.sum())), lengths[kept])
