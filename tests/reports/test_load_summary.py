"""`depthgate load`'s figures: as reports.metrics has them, without the records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.columns import request_columns
from loadgen.records import CellRecord, Outcome, RequestRecord, TokenSource
from reports import chunk_tally
from reports.load_summary import LoadSummary, load_summary
from reports.metrics import LATENCIES
from reports.samples import percentiles
from reports.tally import Tally
from reports.token_clock import TokenClock

PLAIN = RequestRecord(
    request="r", arm="load", concurrency=2, repeat=0, traffic_class="chat", due_s=0.0, sent_s=0.0,
    first_byte_s=1.0, first_token_s=1.0, done_s=2.0, chunk_times_s=(1.0, 1.5, 2.0), chunk_tokens=(1, 3, 2),
    prompt_tokens=4, output_tokens=6, max_tokens=6, tokens_are=TokenSource.CONTINUOUS_USAGE,
    outcome=Outcome.DONE,
)  # fmt: skip
CELL = CellRecord("load", 2, 0, window_start_s=10.0, window_end_s=20.0, clock="wall")


def shifted(by_s: float, gap_s: float = 0.5, tokens: tuple[int, ...] = (1, 3, 2)) -> RequestRecord:
    times = tuple(by_s + 1.0 + gap_s * at for at in range(len(tokens)))
    return replace(
        PLAIN, due_s=by_s, first_token_s=times[0], chunk_times_s=times, done_s=times[-1],
        chunk_tokens=tokens, output_tokens=sum(tokens),
    )  # fmt: skip


MANY = [shifted(0.1 * at, 0.01 * (1 + at % 7), (1, 1 + at % 4, 0, 2)) for at in range(200)]


def test_the_same_figures_as_from_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_tally, "BATCH", 50)
    figures = load_summary([*MANY, replace(PLAIN, warmup=True, due_s=-50.0)])
    for metric, of in LATENCIES.items():
        taken = of(request_columns(MANY))
        assert taken is not None
        for level, value in zip(("p50", "p95", "p99"), percentiles(taken, [0.5, 0.95, 0.99]), strict=True):
            assert figures[f"{metric}_{level}_s"] == pytest.approx(value, rel=1e-12), (metric, level)
    tokens = sum(record.output_tokens or 0 for record in MANY)
    duration_s = max(record.done_s or 0.0 for record in MANY) - min(record.due_s for record in MANY)
    assert figures["output_tokens"] == tokens
    assert figures["output_tokens_per_s"] == pytest.approx(tokens / duration_s)
    assert figures["requests_per_s"] == pytest.approx(200 / duration_s)


def test_steady_state_leaves_the_start_burst_out() -> None:
    """2 s of TTFT in the burst at 0 s, 1 s after it; a token every half second throughout."""
    burst = [replace(shifted(0.0), first_token_s=2.0)] * 3
    steady = [shifted(10.0 + at) for at in range(5)]
    figures = load_summary([*burst, *steady], CELL)
    assert (figures["completed"], figures["steady_completed"]) == (8, 5)
    assert figures["ttft_p99_s"] == pytest.approx(2.0)
    assert figures["steady_ttft_p99_s"] == pytest.approx(1.0)
    assert figures["steady_output_tokens_per_s"] == pytest.approx(5 * 6 / 10.0)


def test_what_is_unknown_is_none() -> None:
    figures = load_summary([PLAIN, replace(PLAIN, chunk_tokens=None, tokens_are=TokenSource.USAGE)])
    assert (figures["itl_p50_s"], figures["peak_output_tokens_per_s"]) == (None, None)
    assert (figures["chunk_gap_p50_s"], figures["tokens_are"]) == (0.5, "usage")
    assert load_summary([replace(PLAIN, output_tokens=None)])["output_tokens_per_s"] is None
    nothing = LoadSummary().figures(CELL)
    assert (nothing["completed"], nothing["ttft_p50_s"], nothing["duration_s"]) == (0, None, None)
    assert nothing["tokens_are"] == "unknown"


def test_failures_are_counted_by_reason() -> None:
    failed = replace(PLAIN, outcome=Outcome.FAILED, why="HTTP 500", done_s=None)
    refused = replace(PLAIN, outcome=Outcome.REFUSED, why="HTTP 429", done_s=None)
    figures = load_summary([PLAIN, failed, failed, refused])
    assert (figures["completed"], figures["failed"], figures["refused"]) == (1, 2, 1)
    assert figures["failures"] == {"HTTP 500": 2, "HTTP 429": 1}


@given(st.lists(st.tuples(st.floats(1e-6, 1e3), st.integers(1, 5)), min_size=1, max_size=60))
def test_a_tally_is_exact_until_it_is_full(pairs: list[tuple[float, int]]) -> None:
    tally = Tally()
    for value, count in pairs:
        tally.add(np.array([value]), np.array([count]))
    expanded = [value for value, count in pairs for _ in range(count)]
    assert tally.total == len(expanded)
    assert tally.percentiles([0.0, 0.5, 0.99]) == pytest.approx(
        [float(np.quantile(expanded, level)) for level in (0.0, 0.5, 0.99)], rel=1e-12
    )


def test_a_full_tally_keeps_counts_and_values_to_one_part_in_8192() -> None:
    values = np.random.default_rng(1).lognormal(-4.0, 1.0, 100_000)
    tally = Tally(exact=1000)
    for part in np.split(values, 100):
        tally.add(part)
    assert tally.total == 100_000
    levels = [0.01, 0.5, 0.99, 0.999]
    assert tally.percentiles(levels) == pytest.approx(np.quantile(values, levels), rel=1 / 8192)


def test_tokens_over_time() -> None:
    clock = TokenClock()
    clock.add(np.arange(5.0, 8.0, 0.01) + 0.005, np.full(300, 2))
    clock.add(np.array([4.105]), np.array([7]))  # earlier than all that had come
    assert clock.per_s(5.0, 8.0) == pytest.approx(200.0)
    assert clock.per_s(4.0, 6.0) == pytest.approx((200 + 7) / 2)
    assert clock.peak_per_s() == pytest.approx(200.0)
    assert (TokenClock().per_s(0.0, 1.0), TokenClock().peak_per_s()) == (None, None)
