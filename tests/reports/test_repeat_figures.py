"""Figures by repeat out of a judgement: the distribution of a cell, means and paired ratios."""

from __future__ import annotations

import pytest

from reports.pooled import repeat_figures
from tests.reproducers.made_up import cell, judgement


def test_a_distribution_and_its_mean() -> None:
    values = {0: {"jain_index": 0.9}, 1: {"jain_index": 0.5}, 2: {"jain_index": 0.7}}
    figures = repeat_figures(judgement([cell("a", 8, by_repeat=values)]), "jain_index")
    assert figures.of("a", 8) == (0.9, 0.5, 0.7)
    mean = figures.mean("a", [8])
    assert mean is not None
    assert mean.point == pytest.approx(0.7)
    assert mean.high - mean.point == pytest.approx(4.303 * 0.2 / 3**0.5, rel=1e-3)  # Student's t, 2 df


def test_a_spoiled_repeat_is_left_out_of_every_arm() -> None:
    top = {0: {"itl_p50_s": 2.0}, 1: {"itl_p50_s": 2.2}, 2: {"itl_p50_s": 9.0}}
    base = {0: {"itl_p50_s": 1.0}, 1: {"itl_p50_s": 1.1}}  # repeat 2 was spoiled
    figures = repeat_figures(
        judgement([cell("a", 8, by_repeat=top), cell("b", 8, by_repeat=base)]), "itl_p50_s"
    )
    ratio = figures.ratio("a", "b", [8])
    assert ratio is not None
    assert ratio.point == pytest.approx(2.0)
    assert figures.of("a", 8) == (2.0, 2.2)


def test_what_is_not_known_has_no_figure() -> None:
    figures = repeat_figures(judgement([cell("a", 8, by_repeat={0: {}, 1: {}})]), "jain_index")
    assert figures.of("a", 8) == ()
    assert figures.mean("a", [8]) is None
