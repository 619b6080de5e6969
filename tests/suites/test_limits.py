"""Limits of a suite that follow from how it is judged."""

from __future__ import annotations

from reports.interval import DRAWS
from suites.limits import MOST_CONFIDENCE


def test_the_highest_confidence_leaves_a_draw_in_each_tail() -> None:
    assert round((1 - MOST_CONFIDENCE) / 2 * DRAWS, 9) == 1.0
