"""Axes, bands and colours of the charts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from reports.judgement import Interval
from reports.palette import ARMS, BASELINE, DARK, REASONS, SYMBOLS, ArmStyle, arm_styles, translucent
from reports.plot import Series, add_series, figure_data, log_ticks, new_figure, plot_text

STYLE = ArmStyle("#0072b2", "square")


def luminance(colour: str) -> float:
    """WCAG 2.1 relative luminance."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [*ARMS, BASELINE, *REASONS.values()])
def test_colours_can_be_read_in_both_schemes(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 4.5
    assert contrast(DARK[colour], DARK["#ffffff"]) >= 4.5


def test_names_keep_their_colour_over_runs_and_baselines_are_grey() -> None:
    styles = arm_styles([("off", True), ("a", False), ("b", False), ("a", False)])
    assert styles["off"].colour == BASELINE
    assert [styles["a"].colour, styles["b"].colour] == list(ARMS[:2])


def test_seventeen_arms_differ_in_colour_or_symbol() -> None:
    styles = arm_styles((f"arm{at}", False) for at in range(17))
    assert len(set(styles.values())) == 17
    assert len(ARMS) * len(SYMBOLS) > 17


def test_translucent_is_plotlys_form() -> None:
    assert translucent("#0072b2", 0.16) == "rgba(0, 114, 178, 0.16)"


def test_log_ticks_are_round_and_inside_the_range() -> None:
    ticks, (low, high) = log_ticks([230.0, 4845.0])
    assert ticks == [200, 500, 1000, 2000, 5000]
    assert low < math.log10(230) < math.log10(4845) < high


def test_log_ticks_of_nothing() -> None:
    assert log_ticks([]) == ([], [0.0, 1.0])
    assert log_ticks([0.0]) == ([], [0.0, 1.0])


def test_band_breaks_at_an_unknown_point() -> None:
    bands = {1: Interval(1, 2, 3), 2: Interval(2, 3, 4), 4: None, 8: Interval(5, 6, 7)}
    points = {c: band.point if band else None for c, band in bands.items()}
    figure = new_figure("x", "y")
    add_series(figure, Series("arm", STYLE, points, bands, {}))
    data: Any = figure_data(figure)
    traces = data["data"]
    assert [trace["x"] for trace in traces] == [[1, 2, 2, 1], [8, 8], [1, 2, 4, 8]]
    assert traces[0]["y"] == [1, 2, 4, 3]
    assert traces[2]["y"] == [2, 3, None, 6]


def test_text_for_plotly_is_neither_markup_nor_formula() -> None:
    assert plot_text("<b>$a$ & b</b>") == "&lt;b&gt;&#36;a&#36; &amp; b&lt;/b&gt;"
