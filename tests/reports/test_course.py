"""Phases apart and the backlog over time, on records that can be checked on paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadgen.columns import request_columns as columns
from loadgen.records import Outcome
from reports.course import Backlog, LoadCourse, PhaseFigures, backlog, phase_figures, phase_note
from reports.page import report_page
from reports.page_input import PagePart, ReportInput
from reports.plausible import plausible_cell
from reports.step_series import step_series, switch_count
from reports.throughput import token_spans
from tests.reports import fake_runs
from tests.reports.hand_made import cell, failure, request, step
from tests.reports.page_reading import Page

RECORDS = [
    request(due_s=0.0, times_s=(1.0, 2.0, 4.0), tokens=(1, 2, 4)),
    request(due_s=3.0, times_s=(5.0, 9.0), tokens=(10, 20)),
]


def test_tokens_count_in_the_phase_in_which_they_arrive() -> None:
    """Phases 0-3, 3-5 and 5-10 s: 1 + 2, 4, and 10 + 20 tokens; requests count where they were due."""
    found = phase_figures(columns(RECORDS), cell(phase_starts_s=(0.0, 3.0, 5.0, 10.0)))
    assert found == (
        PhaseFigures(0.0, 3.0, 1.0, 1, 1.0),
        PhaseFigures(3.0, 5.0, 2.0, 1, 2.0),
        PhaseFigures(5.0, 10.0, 6.0, 0, None),
    )
    assert phase_note(found) == ("by phase: 1, 2, 6 tokens/s",)


def test_a_load_without_phases_has_none_and_unknown_is_said() -> None:
    assert phase_figures(columns(RECORDS), cell()) == ()
    assert phase_note(()) == ()
    unknown = phase_figures(columns([failure()]), cell(phase_starts_s=(0.0, 5.0)))
    assert (unknown[0].tokens_per_s, unknown[0].ttft_p50_s) == (None, None)
    assert phase_note(unknown) == ("by phase: ? tokens/s",)


def test_the_backlog_is_what_is_due_and_has_not_ended() -> None:
    records = [*RECORDS, failure(Outcome.REFUSED, due_s=3.5, sent_s=4.5)]
    assert backlog(columns(records)) == Backlog((0.0, 3.0, 3.5, 4.0, 4.5, 9.0), (1, 2, 3, 2, 1, 0))
    assert backlog(columns([])) == Backlog((), ())


def test_an_open_load_s_throughput_is_that_of_its_window() -> None:
    """Window 2-6 s: 2 (its edge counts), 4 and 10 tokens; what drains after the load does not count."""
    spans = token_spans(columns(RECORDS), cell(2.0, 6.0), "open")
    assert spans is not None
    assert spans.tokens_per_s == pytest.approx((2 + 4 + 10) / 4)


def test_phases_that_go_back_in_time_are_not_plausible() -> None:
    assert plausible_cell(cell(phase_starts_s=(0.0, 3.0, 3.0)))
    assert not plausible_cell(cell(phase_starts_s=(0.0, 3.0, 2.0)))
    assert not plausible_cell(cell(phase_starts_s=(0.0, float("nan"))))


def test_more_accepted_than_drafted_is_not_plausible() -> None:
    assert plausible_cell(cell(drafts=10, draft_tokens=20, accepted_tokens=20, accepted_by_position=(10, 10)))
    assert not plausible_cell(cell(drafts=10, draft_tokens=20, accepted_tokens=21))
    assert not plausible_cell(cell(drafts=10, draft_tokens=20, accepted_by_position=(11,)))


def test_the_page_shows_phases_and_backlogs_only_where_there_are_some() -> None:
    run = fake_runs.report_input()
    assert "Phases of the load" not in Page(report_page([run])).text
    phases = (PhaseFigures(0.0, 5.0, 123.4, 3, 0.0216), PhaseFigures(5.0, 9.0, None, 0, None))
    arm = run.judgement.cells[0].arm
    course = LoadCourse(arm, 4, phases, Backlog((0.0, 1.0), (1, 0)))
    shown = Page(report_page([replace(run, courses=(course,))]))
    assert "Phases of the load" in shown.text
    assert "123.4 · 21.6 ms · 5 s" in shown.text
    assert any(figure["data"] and figure["data"][0].get("y") == [1, 0] for figure in shown.figures)
    assert ReportInput(run.judgement).courses == ()


def test_an_open_load_s_axis_says_what_c_multiplies() -> None:
    def axis(load: object) -> str:
        judged = fake_runs.judgement(manifest={"suite": {"load": load}})
        return PagePart(ReportInput(judged), {}, "run0").load_axis

    assert axis({"mode": "open", "rate_per_s": 0.5}) == "offered load, C times 0.5 requests/s"
    assert axis({"mode": "open", "arrivals": "trace"}) == "offered load, C times the trace"
    assert axis({"mode": "closed"}) == axis(None) == "concurrent requests"


def test_an_open_loop_never_settles_so_all_its_switches_count() -> None:
    """K 2, 0, 2 at batches 1, 4, 1: settled is the one step at batch 4, in which nothing switches."""
    course = step_series([step(0, 0.0, 2, batch=1), step(1, 0.1, 0, batch=4), step(2, 0.2, 2, batch=1)])
    assert (switch_count(course).switches, switch_count(course).steps) == (0, 1)
    assert (switch_count(course, "open").switches, switch_count(course, "open").steps) == (2, 3)
