"""Numbers as a reader sees them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.formats import cell_point, cell_text, metric_format, number, percent, ratio_interval, shown
from reports.judgement import Interval
from tests.reports import fake_runs

CELL = fake_runs.judgement().cells[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (float("nan"), "\u2013"),
        (float("inf"), "\u2013"),
        (0.0, "0"),
        (0.004, "0.004"),
        (0.123, "0.12"),
        (3.378, "3.38"),
        (45.64, "45.6"),
        (230.4, "230"),
        (20727.0, "20,727"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


def test_durations_are_shown_in_ms_and_rates_in_percent() -> None:
    assert shown("itl_p50_s", 0.0034) == "3.40"
    assert shown("failure_rate", 0.5) == "50.0"
    assert metric_format("some_new_latency_s").unit == "ms"
    assert metric_format("peak_tokens_per_s").unit == ""


def test_intervals() -> None:
    assert ratio_interval(Interval(0.231, 0.276, 0.32)) == "0.28 (0.23\u20130.32)"
    assert ratio_interval(None) == "\u2013"
    assert percent(0.8) == "80 %"
    assert percent(None) == "\u2013"


def test_cell_without_interval_shows_its_point_alone() -> None:
    pointed = replace(CELL, figures={"tokens_per_s": None}, points={"tokens_per_s": 296.0})
    assert cell_text(pointed, "tokens_per_s") == "296"
    assert cell_text(CELL, "tokens_per_s") == "296 (287\u2013305)"
    assert cell_point(replace(pointed, points={}), "tokens_per_s") is None
    assert cell_text(replace(pointed, points={}), "tokens_per_s") == "\u2013"
