"""An engine's own counters, before and after a cell."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.counters import CounterReset, EngineCounters, counters_between, lag_between, read_metrics
from tests.shared_files import shared_file

ZERO = EngineCounters(0, 0, 0, (0, 0, 0), None)


def test_created_gauges_are_no_counters() -> None:
    text = shared_file("cases/trap_created_gauge.prom").read_text()
    counted = counters_between(ZERO, read_metrics(text).counters)
    assert counted.acceptance_rate == 0.5
    assert counted.acceptance_length == 2.5
    assert counted.rate_by_position == (0.8, 0.45, 0.25)


def test_llamacpp_names_and_zero_drafts() -> None:
    counted = read_metrics(shared_file("cases/llamacpp_metrics_nospec.prom").read_text()).counters
    assert (counted.drafts, counted.draft_tokens, counted.accepted_tokens) == (0, 0, 0)
    assert (counted.acceptance_rate, counted.acceptance_length, counted.rate_by_position) == (None, 1.0, None)
    assert counted.accepted_by_position is None


def test_a_missing_metric_is_none_and_not_zero() -> None:
    for text in (None, "", "# HELP x\nvllm:num_requests_running 3\n", "<html>no</html>"):
        counted = counters_between(read_metrics(text).counters, read_metrics(text).counters)
        assert counted == EngineCounters()
        assert (counted.acceptance_rate, counted.acceptance_length) == (None, None)


def test_only_what_the_cell_added_counts() -> None:
    before = EngineCounters(100, 300, 150, (80, 45, 25), (100, 90, 80))
    after = EngineCounters(110, 330, 165, (88, 50, 27), (110, 99, 88))
    assert counters_between(before, after) == EngineCounters(10, 30, 15, (8, 5, 2), (10, 9, 8))


def test_a_counter_that_appears_late_started_at_zero() -> None:
    assert counters_between(EngineCounters(), EngineCounters(4, 8, 6, (4, 2))).accepted_by_position == (4, 2)


@pytest.mark.parametrize("after", [EngineCounters(3, 9, 4, (4, 0)), EngineCounters(9, 27, 9, (3, 3))])
def test_a_counter_that_fell_is_a_restart(after: EngineCounters) -> None:
    with pytest.raises(CounterReset, match=r"engine restarted during the cell: .* fell from \d+ to \d+"):
        counters_between(EngineCounters(5, 15, 7, (4, 3)), after)


def test_engines_of_a_data_parallel_group_are_summed() -> None:
    name = "vllm:spec_decode_num_drafts_total"
    text = f'{name}{{engine="0"}} 3\n{name}{{engine="1"}} 4\n'
    assert read_metrics(text).counters.drafts == 7


def lag_text(steps: int, late_s: float, max_s: float, within: dict[str, int]) -> str:
    buckets = [f'depthgate:engine_lag_bucket{{engine="0",le="{le}"}} {n}' for le, n in within.items()]
    lines = [
        f"depthgate:engine_lag_count {steps}",
        f"depthgate:engine_lag_sum {late_s}",
        f"depthgate:engine_lag_max_seconds {max_s}",
        f"depthgate:modelled_seconds_total {steps * 0.01}",
        'depthgate:max_num_seqs{engine="0"} 16',
    ]
    return "\n".join([*buckets, *lines])


def test_lag_of_the_cell_is_not_the_worst_since_the_server_started() -> None:
    before = read_metrics(lag_text(100, 1.0, 0.9, {"0.001": 90, "0.01": 99, "1.0": 100, "+Inf": 100}))
    after = read_metrics(lag_text(200, 1.1, 0.9, {"0.001": 189, "0.01": 199, "1.0": 200, "+Inf": 200}))
    lag = lag_between(before.lag, after.lag)
    assert lag is not None
    assert (lag.steps, lag.max_s) == (100, 0.01)
    assert lag.modelled_s == pytest.approx(1.0)
    assert lag.late_s == pytest.approx(0.1)
    assert after.max_num_seqs == 16


def test_a_new_worst_lag_is_the_cells() -> None:
    before = read_metrics(lag_text(100, 1.0, 0.2, {"0.5": 100, "+Inf": 100}))
    after = read_metrics(lag_text(200, 1.1, 7.5, {"0.5": 199, "+Inf": 200}))
    lag = lag_between(before.lag, after.lag)
    assert lag is not None
    assert lag.max_s == 7.5


def test_governor_errors_are_read_and_unknown_where_not_published() -> None:
    text = 'depthgate:governor_errors_total{engine="0",model_name="m"} 3\n'
    assert read_metrics(text).governor_errors == 3
    assert read_metrics("vllm:num_requests_running 1").governor_errors is None


def test_an_engine_that_reports_no_lag() -> None:
    assert lag_between(None, read_metrics("vllm:num_requests_running 1").lag) is None


@given(st.text(max_size=300), st.lists(st.sampled_from(["vllm:spec_decode_num_drafts_total"]), max_size=3))
@settings(deadline=None)
def test_no_text_crashes_it(noise: str, names: list[str]) -> None:
    text = "\n".join([noise, *(f"{name} {value}" for name in names for value in ("NaN", "+Inf", "x", "1e9"))])
    read_metrics(text)


def test_a_position_from_outer_space_takes_no_memory() -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    positions = read_metrics(f'{name}{{position="999999999"}} 1\n').counters.accepted_by_position
    assert positions is not None
    assert len(positions) == 256


def test_a_count_that_no_record_could_hold_is_unknown() -> None:
    assert read_metrics("vllm:spec_decode_num_drafts_total 1e300\n").counters.drafts is None
