"""Metrics on records whose values can be worked out on paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.columns import request_columns as columns
from loadgen.records import Outcome, RequestRecord
from reports.metrics import (
    LATENCIES,
    acceptance_by_position,
    acceptance_length,
    answered,
    chunk_gap_s,
    e2e_s,
    failed,
    itl_s,
    jain_index,
    outcome_counts,
    peak_concurrency,
    refused,
    tokens_per_chunk_by_class,
    tpot_s,
    ttft_s,
)
from reports.samples import Samples, percentiles, pooled, resampled_percentiles
from reports.throughput import SLICES, burst_numbers, peak_tokens_per_s, token_arrivals, token_spans
from tests.reports.hand_made import cell, failure, request


def _expanded(of: Samples | None) -> list[float]:
    assert of is not None
    return np.repeat(of.values, of.counts).tolist()


def test_latencies_of_one_request() -> None:
    """due 0.5; chunks of 1, 2, 4 tokens at 1, 2, 4 s."""
    records = [request(due_s=0.5)]
    assert _expanded(ttft_s(columns(records))) == [0.5]
    assert _expanded(e2e_s(columns(records))) == [3.5]
    assert _expanded(tpot_s(columns(records))) == [0.5]  # (4 - 1) / (7 - 1)
    assert _expanded(chunk_gap_s(columns(records))) == [1.0, 2.0]
    assert _expanded(itl_s(columns(records))) == [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]  # 2 x 1/2, 4 x 2/4


def test_latency_counts_from_due_not_from_sent() -> None:
    late = request(due_s=0.0, sent_s=0.9)
    assert _expanded(ttft_s(columns([late]))) == [1.0]


def test_a_chunk_is_not_a_token() -> None:
    """24 tokens in 8 chunks, 8.7 ms apart: 2.9 ms a token (the chunk gap is thrice that)."""
    times = [0.0087 * index for index in range(8)]
    records = [request(times_s=times, tokens=[3] * 8)]
    assert _expanded(chunk_gap_s(columns(records))) == pytest.approx([0.0087] * 7)
    assert _expanded(itl_s(columns(records))) == pytest.approx([0.0029] * 21)


def test_a_chunk_without_tokens_lends_its_gap_to_the_next() -> None:
    records = [request(times_s=(1.0, 2.0, 4.0), tokens=(1, 0, 3))]
    assert _expanded(itl_s(columns(records))) == [1.0, 1.0, 1.0]


def test_without_per_chunk_counts_itl_is_unknown_and_the_rest_is_not() -> None:
    records = [request(tokens=None, output_tokens=7)]
    assert itl_s(columns(records)) is None
    assert _expanded(tpot_s(columns(records))) == [0.5]
    assert tokens_per_chunk_by_class([columns(records)]) == {"gsm8k": None}


def test_without_usage_tpot_is_unknown() -> None:
    assert tpot_s(columns([request(tokens=None)])) is None


def test_a_single_token_has_no_tpot_and_no_itl() -> None:
    records = [request(times_s=(1.0,), tokens=(1,))]
    assert tpot_s(columns(records)) is None
    assert itl_s(columns(records)) is None
    assert _expanded(ttft_s(columns(records))) == [1.0]


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.DONE])
def test_only_done_requests_enter_latencies(outcome: Outcome) -> None:
    records = [request(), request(times_s=(50.0, 90.0), tokens=(1, 1), outcome=outcome)]
    for metric in LATENCIES.values():
        assert _expanded(metric(columns(records))) == _expanded(metric(columns(records[:1])))


def test_warmup_enters_nothing() -> None:
    records = [request(), request(times_s=(50.0, 90.0), tokens=(1, 1), warmup=True)]
    assert _expanded(e2e_s(columns(records))) == [4.0]
    assert outcome_counts([columns(records)]) == {"done": 1}


def test_no_request_gives_none_everywhere() -> None:
    for metric in LATENCIES.values():
        assert metric(columns([])) is None
        assert metric(columns([failure()])) is None
    assert jain_index(columns([failure()])) is None
    assert peak_concurrency(columns([])) == 0


def test_refusals_and_failures_are_counted_apart_and_a_cancel_is_neither() -> None:
    outcomes = [
        Outcome.DONE,
        Outcome.REFUSED,
        Outcome.REFUSED,
        Outcome.FAILED,
        Outcome.TIMED_OUT,
        Outcome.TRUNCATED,
    ]
    counts = outcome_counts([columns([failure(outcome) for outcome in [*outcomes, Outcome.CANCELLED]])])
    assert (answered(counts), refused(counts), failed(counts)) == (6, 2, 3)


def test_jain_index_of_starved_streams() -> None:
    """shared/cases: 8 streams, the same mean, one of them 20 times as fast."""
    speeds = [1.8, 39.4, 2.4, 6.1, 1.7, 2.2, 1.8, 3.3]
    records = [request(times_s=(10 / speed,), tokens=(10,)) for speed in speeds]
    assert jain_index(columns(records)) == pytest.approx(sum(speeds) ** 2 / (8 * sum(x * x for x in speeds)))
    assert jain_index(columns(records)) == pytest.approx(0.265, abs=0.001)
    assert jain_index(columns([request(), request()])) == pytest.approx(1.0)


def test_peak_concurrency_counts_overlaps_only() -> None:
    spans = [(0.0, 2.0), (1.0, 3.0), (2.0, 4.0)]
    assert peak_concurrency(columns([request(due_s=a, times_s=(b,), tokens=(1,)) for a, b in spans])) == 2


def test_acceptance_length_includes_the_bonus_token_and_equals_one_plus_the_rates() -> None:
    cells = [cell(drafts=20, draft_tokens=60, accepted_tokens=30, accepted_by_position=(16, 9, 5))]
    assert acceptance_length(cells) == 2.5
    assert acceptance_by_position(cells) == (0.8, 0.45, 0.25)


def test_zero_drafts_have_length_one_and_no_rates() -> None:
    cells = [cell(drafts=0, draft_tokens=0, accepted_tokens=0, accepted_by_position=(0, 0))]
    assert acceptance_length(cells) == 1.0
    assert acceptance_by_position(cells) == ()


def test_without_counters_acceptance_is_unknown() -> None:
    assert acceptance_length([cell(), cell(drafts=1, accepted_tokens=1)]) is None
    assert acceptance_length([]) is None


def test_tokens_per_chunk_by_class_leaves_the_first_chunk_out() -> None:
    records = [request(tokens=(1, 2, 4)), request(tokens=(1, 1, 1), traffic_class="chat")]
    assert tokens_per_chunk_by_class([columns(records)]) == {"chat": 1.0, "gsm8k": 3.0}


def test_burst_throughput_is_tokens_over_first_due_to_last_done() -> None:
    records = [request(due_s=0.0), request(due_s=0.0, times_s=(2.0, 5.0), tokens=(3, 4)), failure()]
    spans = token_spans(columns(records), cell(), "burst")
    assert spans is not None
    assert spans.tokens_per_s == 14 / 5


def test_bursts_are_told_apart_by_the_pause_between_them() -> None:
    first = [request(due_s=0.0), request(due_s=0.0)]
    second = [request(due_s=4.0, times_s=(6.0,), tokens=(7,))]
    assert burst_numbers(columns(first + second))[1].tolist() == [0, 0, 1]
    spans = token_spans(columns(first + second), cell(), "burst")
    assert spans is not None
    assert (spans.tokens.tolist(), spans.seconds.tolist()) == ([14.0, 7.0], [4.0, 2.0])


def test_a_window_counts_tokens_that_arrived_in_it_whoever_asked() -> None:
    """Window 1..5: two tokens of the first, two of the second, three of the cut-off, none of the failed."""
    records = [
        request(times_s=(0.5, 2.0, 6.0), warmup=True),
        request(times_s=(1.5, 2.5), tokens=(1, 1)),
        request(times_s=(4.0,), tokens=(3,), outcome=Outcome.CANCELLED),
        request(times_s=(4.0,), tokens=(100,), outcome=Outcome.FAILED),
    ]
    spans = token_spans(columns(records), cell(1.0, 5.0), "closed")
    assert spans is not None
    assert spans.tokens_per_s == 7 / 4
    assert len(spans.tokens) == SLICES
    assert spans.note is None


def test_totals_without_chunk_counts_are_spread_and_said() -> None:
    records = [request(times_s=(1.0, 2.0, 3.0, 4.0), tokens=None, output_tokens=8)]
    arrivals = token_arrivals(columns(records))
    assert arrivals is not None
    assert arrivals[1].tolist() == [2.0] * 4
    assert arrivals[2] == "tokens of 1 of 1 requests spread evenly over their chunks"


def test_only_what_this_client_cut_off_is_taken_at_the_others_rate() -> None:
    """Two tokens a chunk; a whole answer without a count makes the figure unknown, however many have one."""
    counted = request(times_s=(1.0, 2.0), tokens=None, output_tokens=4)
    cut = request(times_s=(1.0, 2.0, 3.0), tokens=None, outcome=Outcome.CANCELLED)
    arrivals = token_arrivals(columns([counted, cut]))
    assert arrivals is not None
    assert arrivals[1].tolist() == [2.0] * 5
    assert str(arrivals[2]).endswith(", 1 of them cut off here and taken at the others' tokens a chunk")
    assert token_arrivals(columns([counted] * 9 + [replace(cut, outcome=Outcome.DONE)])) is None


def test_throughput_of_unknown_token_counts_is_unknown() -> None:
    records = [request(tokens=None)]
    assert token_spans(columns(records), cell(), "burst") is None
    assert token_spans(columns(records), cell(), "closed") is None
    assert token_spans(columns([failure()]), cell(), "burst") is None
    assert token_spans(columns([request()]), cell(3.0, 3.0), "closed") is None


TIMES = st.lists(st.floats(0.01, 20.0), min_size=1, max_size=12).map(sorted)


@given(st.lists(st.tuples(TIMES, st.integers(1, 9)), min_size=1, max_size=6))
def test_peak_is_never_below_the_mean(streams: list[tuple[list[float], int]]) -> None:
    records = [request(times_s=times, tokens=[count] * len(times)) for times, count in streams]
    for mode in ("burst", "closed"):
        spans = token_spans(columns(records), cell(0.0, 20.0), mode)
        assert spans is not None
        peak, mean = peak_tokens_per_s(spans), spans.tokens_per_s
        assert peak is not None
        assert mean is not None
        assert peak >= mean * (1 - 1e-12)


@given(
    st.lists(st.tuples(st.floats(0, 1e3), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=40),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
)
def test_percentiles_are_numpy_s_of_the_expanded_samples(
    rows: list[tuple[float, int, int]], weights: list[int]
) -> None:
    values, counts, units = (np.array(column) for column in zip(*rows, strict=True))
    of = Samples(values.astype(np.float64), counts, units, 4)
    levels = [0.5, 0.95, 0.99]
    assert percentiles(of, levels) == pytest.approx(np.percentile(np.repeat(values, counts), [50, 95, 99]))
    taken = counts * np.array(weights)[units]
    if taken.sum():
        drawn = resampled_percentiles(of, np.array([weights]), levels)[0]
        assert drawn == pytest.approx(
            np.percentile(np.repeat(values, taken), [50, 95, 99]), rel=1e-9, abs=1e-9
        )


def test_pooling_needs_the_metric_in_every_repeat() -> None:
    one = ttft_s(columns([request()]))
    assert pooled([one, None]) is None
    both = pooled([one, one])
    assert both is not None
    assert (both.n_units, both.units.tolist()) == (2, [0, 1])


def test_records_are_not_changed() -> None:
    records: list[RequestRecord] = [request()]
    itl_s(columns(records))
    assert records == [request()]
