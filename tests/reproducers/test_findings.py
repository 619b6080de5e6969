"""Findings: what a report presupposes is never refuted, and spoiled cells say why."""

from __future__ import annotations

import pytest

from reports.judgement import Interval
from reproducers.findings import NOT_APPLIED, State, above, granted, left_out
from tests.reproducers.made_up import cell, judgement


@pytest.mark.parametrize(
    ("low", "high", "state"), [(2.4, 2.8, State.MET), (2.2, 2.8, State.OPEN), (1.4, 2.2, State.OPEN)]
)
def test_without_what_the_report_presupposes_the_question_was_not_put(
    low: float, high: float, state: State
) -> None:
    assert granted(above("length", Interval(low, (low + high) / 2, high), 2.3)).state is state


def test_without_a_figure_it_says_what_is_needed() -> None:
    found = granted(above("length", None, 2.3))
    assert found.state is State.OPEN
    assert "an engine that counts it" in found.sentence


def test_the_first_reason_is_said() -> None:
    cells = [cell("off", 1), cell("off", 2, invalid=("the client was late", "again")), cell("off", 4)]
    assert left_out(judgement(cells)) == (
        "left out whole: repeats with a spoiled cell (off c=2), the first since the client was late",
    )
    assert left_out(judgement(cells[:1])) == ()


def test_what_is_looked_for_spoils_nothing() -> None:
    symptom = "policy not applied: in 9 of 10 steps"
    cells = [cell("fixed_0", 1, invalid=(symptom,)), cell("off", 2, invalid=(symptom, "the client was late"))]
    assert left_out(judgement(cells[:1]), NOT_APPLIED) == ()
    (said,) = left_out(judgement(cells), NOT_APPLIED)
    assert said.endswith("(off c=2), the first since the client was late")
