"""Figures out of columns are those of the records' own formulas, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.columns import joined, request_columns
from loadgen.records import Outcome, RequestRecord
from reports import metrics
from reports.course import backlog, phase_figures
from reports.plausible import MOST, plausible_requests
from reports.samples import Samples
from reports.throughput import TokenSpans, token_arrivals, token_spans
from tests.reports import by_record
from tests.reports.hand_made import cell, request

GAPS = st.sampled_from((0.0, 0.25, 0.1)) | st.floats(0, 3)


@st.composite
def lives(draw: st.DrawFn) -> RequestRecord:
    """One request as it may be: unknown where it can be, in the order of time."""
    due_s = draw(st.floats(0, 20))
    sent_s = due_s + draw(GAPS)
    times = np.cumsum([sent_s, *draw(st.lists(GAPS, max_size=4))]).tolist()[1:]
    tokens = draw(st.none() | st.lists(st.integers(0, 3), min_size=len(times), max_size=len(times)))
    ended_s = (times[-1] if times else sent_s) + draw(GAPS)
    return request(
        due_s,
        times,
        tokens,
        draw(st.none() | st.integers(0, 9)),
        draw(st.sampled_from((Outcome.DONE, Outcome.DONE, *Outcome))),
        done_s=ended_s,
        sent_s=draw(st.sampled_from((sent_s, sent_s, None))),
        first_token_s=times[0] if times and draw(st.booleans()) else None,
        traffic_class=draw(st.sampled_from(("gsm8k", "chat"))),
        warmup=draw(st.integers(0, 3)) == 0,
        why=draw(st.sampled_from((None, "", "said"))),
    )


RECORDS = st.lists(lives(), max_size=12)


def values(of: Samples | None) -> object:
    return of and (of.values.tolist(), of.counts.tolist(), of.units.tolist(), of.n_units)


def spans(of: TokenSpans | None) -> object:
    return of and (of.tokens.tolist(), of.seconds.tolist(), of.note)


def arrivals(of: tuple[np.ndarray, np.ndarray, str | None] | None) -> object:
    return of and (of[0].tolist(), of[1].tolist(), of[2])


@given(RECORDS)
@settings(max_examples=200, deadline=None)
def test_metrics(records: list[RequestRecord]) -> None:
    of = request_columns(records)
    for name, metric in metrics.LATENCIES.items():
        assert values(metric(of)) == values(by_record.LATENCIES[name](records)), name
    assert metrics.jain_index(of) == by_record.jain_index(records)
    assert metrics.peak_concurrency(of) == by_record.peak_concurrency(records)


@given(RECORDS, st.floats(0, 20), st.floats(0, 20))
@settings(max_examples=200, deadline=None)
def test_throughputs(records: list[RequestRecord], start_s: float, end_s: float) -> None:
    of, window = request_columns(records), cell(start_s, end_s, phase_starts_s=(1.0, 1.0, 4.0, 11.0))
    for mode, of_records in by_record.SPANS.items():
        assert spans(token_spans(of, window, mode)) == spans(of_records(records, window)), mode
    assert arrivals(token_arrivals(of)) == arrivals(by_record.token_arrivals(records))
    assert phase_figures(of, window) == by_record.phase_figures(records, window)
    assert backlog(of) == by_record.backlog(records)


@given(RECORDS, RECORDS)
@settings(max_examples=100, deadline=None)
def test_counts_over_repeats(first: list[RequestRecord], second: list[RequestRecord]) -> None:
    cells, records = [request_columns(first), request_columns(second)], [*first, *second]
    counts = metrics.outcome_counts(cells)
    assert list(counts.items()) == list(by_record.outcome_counts(records).items())  # their order as well
    assert metrics.tokens_per_chunk_by_class(cells) == by_record.tokens_per_chunk_by_class(records)
    whole = joined(cells)
    assert values(metrics.itl_s(whole)) == values(by_record.itl_s(records))
    whys = [record.why for record in by_record.measured(records) if record.why]
    assert (int((whole.has_why & whole.measured).sum()), whole.first_contradiction) == (
        len(whys),
        whys[0] if whys else None,
    )
    assert whole.first_why == next((record.why for record in records if record.why), None)


ODD = (float("nan"), float("inf"), -1e12, 1e12, -1.0, 0.0, 0.5, 1.0, 2.0)
TIMES = st.sampled_from(ODD)
COUNTS = st.sampled_from((None, -(2**63), -1, 0, 1, MOST - 1, MOST, 2**64))
WILD = st.builds(
    lambda due_s, times, tokens, output, **more: request(due_s, times, tokens, output, **more),
    st.sampled_from((-1.0, 0.0, float("nan"))),
    st.lists(TIMES, max_size=3),
    st.none() | st.lists(st.sampled_from((-1, 0, 5, MOST - 1, MOST, 2**70)), max_size=3),
    COUNTS,
    sent_s=st.none() | TIMES,
    first_byte_s=st.none() | TIMES,
    first_token_s=st.none() | TIMES,
    prompt_tokens=COUNTS,
)


@given(st.lists(lives() | WILD, max_size=3))
@settings(max_examples=500, deadline=None)
def test_what_cannot_be_is_what_could_not_be(records: Sequence[RequestRecord]) -> None:
    assert plausible_requests(request_columns(records)) == all(map(by_record.plausible_request, records))
