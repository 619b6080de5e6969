"""What locust's page and CSV show of a request: rows of the one number that locust knows, milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from loadgen.records import Outcome, RequestRecord


@dataclass(frozen=True, slots=True)
class Row:
    """`kind`, `name`: locust's first two columns. `value`: ms, or what the kind says. `length`: tokens."""

    kind: str
    name: str
    value: float
    length: int = 0
    failure: str | None = None


def rows(record: RequestRecord) -> Iterator[Row]:
    """The request itself, then its figures, by the formulas of reports.metrics. Failures have no figures;

    a request that this client gave up is no row at all.
    """
    if record.outcome is Outcome.CANCELLED:
        return
    name = record.traffic_class
    last_s = record.done_s or (record.chunk_times_s[-1] if record.chunk_times_s else record.first_byte_s)
    elapsed_ms = 0.0 if last_s is None else (last_s - record.due_s) * 1e3
    done = record.outcome is Outcome.DONE
    failure = None if done else f"{record.outcome}: {record.why}"
    yield Row("E2E", name, elapsed_ms, record.output_tokens or 0, failure)
    if not done:
        return
    times, tokens = record.chunk_times_s, record.output_tokens
    if record.first_token_s is not None:
        yield Row("TTFT", name, (record.first_token_s - record.due_s) * 1e3)
    if tokens is not None:
        yield Row("tokens", f"{name}: output tokens, not ms", tokens)
        if tokens > 1 and times:
            yield Row("TPOT", name, (times[-1] - times[0]) * 1e3 / (tokens - 1))
    yield from _gaps(record)


def _gaps(record: RequestRecord) -> Iterator[Row]:
    """A chunk of n tokens that came after a gap is n gaps of gap / n."""
    counts = record.chunk_tokens
    if counts is None:
        return
    filled = [(at_s, n) for at_s, n in zip(record.chunk_times_s, counts, strict=True) if n]
    for (before_s, _), (at_s, count) in pairwise(filled):
        row = Row("ITL", f"{record.traffic_class}, per token", (at_s - before_s) * 1e3 / count)
        for _ in range(count):
            yield row
