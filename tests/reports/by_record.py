"""Every figure's formula over records, one after the other: what the columns must give bit by bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise

import numpy as np

from loadgen.records import CellRecord, Outcome, RequestRecord
from reports.course import Backlog, PhaseFigures
from reports.plausible import LONGEST_S, MOST
from reports.samples import FloatArray, IntArray, Samples, samples
from reports.throughput import SLICES, TokenSpans

Records = Sequence[RequestRecord]
COUNTED = (Outcome.DONE, Outcome.CANCELLED)


def measured(records: Records) -> list[RequestRecord]:
    """Requests that enter latencies: done, not warm-up."""
    return [record for record in records if record.outcome is Outcome.DONE and not record.warmup]


def outcome_counts(records: Records) -> dict[str, int]:
    """Outcome -> requests, warm-up left out; every outcome that occurred."""
    return dict(Counter(str(record.outcome) for record in records if not record.warmup))


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


def token_arrivals(records: Records) -> tuple[FloatArray, FloatArray, str | None] | None:
    """(times, tokens, note): when output tokens arrived. Totals without per-chunk counts are spread evenly.

    A request that this client cut off before its usage came is taken at the mean tokens per chunk of the
    others. None when an answer that came whole has no known count, or no request has one.
    """
    counted = [record for record in records if record.outcome in COUNTED and record.chunk_times_s]
    mean = _mean_tokens_per_chunk(counted)
    unknown = [record for record in counted if record.chunk_tokens is None and record.output_tokens is None]
    if mean is None or any(record.outcome == Outcome.DONE for record in unknown):
        return None
    spread = sum(record.chunk_tokens is None for record in counted)
    note = f"tokens of {spread} of {len(counted)} requests spread evenly over their chunks"
    if unknown:
        note += f", {len(unknown)} of them cut off here and taken at the others' tokens a chunk"
    times = np.concatenate([np.asarray(record.chunk_times_s, dtype=np.float64) for record in counted])
    return (
        times,
        np.concatenate([_chunk_weights(record, mean) for record in counted]),
        note if spread else None,
    )


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


SPANS = {"burst": _burst_spans, "closed": _window_spans, "open": _window_spans}


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


def backlog(records: Records) -> Backlog:
    """+1 when a request is due, -1 when it is done; one that failed leaves with the last that came of it."""
    events = [(record.due_s, 1) for record in records]
    events += [(max(record.due_s, _left_s(record)), -1) for record in records]
    if not events:
        return Backlog((), ())
    times, changes = zip(*sorted(events, key=lambda event: (event[0], -event[1])), strict=True)
    counts = np.cumsum(changes)
    return Backlog(tuple(time - times[0] for time in times), tuple(counts.tolist()))


def _left_s(record: RequestRecord) -> float:
    if record.outcome is Outcome.DONE and record.done_s is not None:
        return record.done_s
    return (
        record.chunk_times_s[-1]
        if record.chunk_times_s
        else record.due_s
        if record.sent_s is None
        else record.sent_s
    )


def _rate(arrivals: tuple[FloatArray, FloatArray] | None, start_s: float, end_s: float) -> float | None:
    if arrivals is None:
        return None
    times, tokens = arrivals
    return float(tokens[(times >= start_s) & (times < end_s)].sum()) / (end_s - start_s)


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def plausible_request(record: RequestRecord) -> bool:
    """Times in the order in which a request lives, a count a chunk, counts that can be, an end if done."""
    counts = (record.output_tokens or 0, record.prompt_tokens or 0, *(record.chunk_tokens or ()))
    whole = record.chunk_tokens is None or len(record.chunk_tokens) == len(record.chunk_times_s)
    begun = (record.due_s, record.sent_s, record.first_byte_s)
    ended = record.done_s is not None or not measured([record])
    return (
        whole
        and ended
        and 0 <= min(counts) <= max(counts) < MOST
        and _in_order((*begun, *record.chunk_times_s, record.done_s))
        and _in_order((*begun, record.first_token_s, record.done_s))
    )


def _in_order(times_s: Iterable[float | None]) -> bool:
    known = [time for time in times_s if time is not None]
    ordered = all(before <= after for before, after in pairwise(known))  # NaN is in no order
    return ordered and all(-LONGEST_S < time < LONGEST_S for time in known)
