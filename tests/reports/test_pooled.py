"""Pooled ratios: geometric mean over concurrencies, Student's interval over repeats, pairs only."""

from __future__ import annotations

from math import exp, log

import pytest

from loadgen.records import CellKey
from reports.pooled import Throughputs, interval_of_logs


def table(rates: dict[tuple[str, int], list[float]]) -> Throughputs:
    """(arm, concurrency) -> rate by repeat."""
    return Throughputs(
        {CellKey(*where, repeat): rate for where, by in rates.items() for repeat, rate in enumerate(by)}
    )


def test_ratio_is_the_geometric_mean_of_pairs() -> None:
    rates = table(
        {("a", 5): [10.0, 10.0], ("b", 5): [40.0, 40.0], ("a", 8): [20.0, 20.0], ("b", 8): [20.0, 20.0]}
    )
    ratio = rates.ratio("a", "b", [5, 8])
    assert ratio is not None
    assert ratio.point == pytest.approx(0.5)
    assert ratio.low == pytest.approx(0.5)  # equal repeats show no spread


def test_interval_is_students() -> None:
    """Logs 0, 0.1, 0.2: mean 0.1, sd 0.1, t(0.975, 2) = 4.302653 (any table)."""
    interval = interval_of_logs([0.0, 0.1, 0.2], 0.95)
    assert interval is not None
    half = 4.302653 * 0.1 / 3**0.5
    assert interval.low == pytest.approx(exp(0.1 - half), rel=1e-6)
    assert interval.high == pytest.approx(exp(0.1 + half), rel=1e-6)


def test_one_repeat_has_no_interval() -> None:
    assert table({("a", 5): [1.0], ("b", 5): [2.0]}).ratio("a", "b", [5]) is None


def test_a_repeat_that_lacks_a_cell_is_left_out() -> None:
    rates = dict(table({("a", 5): [1.0, 2.0, 4.0], ("b", 5): [1.0, 1.0, 1.0]}).tokens_per_s)
    del rates[CellKey("b", 5, 2)]
    ratio = Throughputs(rates).ratio("a", "b", [5])
    assert ratio is not None
    assert log(ratio.point) == pytest.approx(log(2) / 2)


def test_ratio_of_ratios_pairs_by_repeat() -> None:
    """A machine that is twice as fast in one repeat cancels."""
    rates = table({("s", 8): [1.0, 2.0], ("f", 8): [4.0, 8.0], ("s", 2): [1.0, 2.0], ("f", 2): [2.0, 4.0]})
    found = rates.ratio_of_ratios("s", "f", [8], [2])
    assert found is not None
    assert found.point == pytest.approx(0.5)
    assert found.high == pytest.approx(0.5)


def test_nothing_to_pair_is_none() -> None:
    assert Throughputs({}).ratio("a", "b", [1]) is None
    assert table({("a", 1): [1.0, 1.0]}).ratio("a", "b", [1]) is None
    assert table({("a", 1): [1.0, 1.0], ("b", 1): [1.0, 1.0]}).ratio("a", "b", []) is None
