"""A server that refuses must not look faster: refusals enter no figure, and stand beside them all."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from loadgen.columns import request_columns as columns
from loadgen.records import Outcome, RequestRecord
from reports.judgement import Interval
from reports.load_summary import LoadSummary
from reports.table import _cell_remarks
from reports.throughput import token_spans
from tests.reports.fake_runs import cell
from tests.reports.hand_made import cell as window_of
from tests.reports.hand_made import failure, request

COUNTS = {"failed", "refused", "cancelled", "failures"}


def done(count: int) -> list[RequestRecord]:
    rng = Random(1)
    return [
        request(due_s=n, times_s=(n + 1 + rng.random(), n + 2.5)[:2], tokens=(1, 3)) for n in range(count)
    ]


def refusals(count: int, outcome: Outcome) -> list[RequestRecord]:
    """At once, before, between and after the answers: as quick as a refusal is."""
    return [replace(failure(outcome), due_s=4.0 * n - 2, sent_s=4.0 * n - 2) for n in range(count)]


def figures(records: list[RequestRecord]) -> dict[str, object]:
    summary = LoadSummary()
    for record in records:
        summary.add(record)
    return summary.figures()


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.TRUNCATED])
def test_a_fifth_refused_changes_no_figure_but_its_own(outcome: Outcome) -> None:
    plain, mixed = figures(done(40)), figures(done(40) + refusals(10, outcome))
    assert {k: v for k, v in mixed.items() if k not in COUNTS} == {
        k: v for k, v in plain.items() if k not in COUNTS
    }
    assert (mixed["refused"], mixed["failed"]) == ((10, 0) if outcome is Outcome.REFUSED else (0, 10))
    assert mixed["failures"] == {"HTTP 500: out of memory": 10}


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.DONE])
def test_tokens_of_an_answer_that_is_not_done_count_nowhere(outcome: Outcome) -> None:
    """Half an answer that came quickly is no quick answer."""
    half = request(due_s=1.0, times_s=(1.001, 1.002), tokens=(1, 3), outcome=outcome)
    plain, mixed = figures(done(5)), figures([*done(5), half])
    assert {k: v for k, v in mixed.items() if k not in COUNTS} == {
        k: v for k, v in plain.items() if k not in COUNTS
    }


@pytest.mark.parametrize("mode", ["burst", "closed", "open"])
@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.TRUNCATED])
def test_throughput_is_that_of_whole_answers(mode: str, outcome: Outcome) -> None:
    """What a request that failed had brought by then is not throughput."""
    half = [request(due_s=n, times_s=(n + 1.25, n + 1.5), tokens=(1, 3), outcome=outcome) for n in range(8)]
    half = [replace(record, done_s=None) for record in half]
    window = window_of(0.0, 40.0)
    plain = token_spans(columns(done(40)), window, mode)
    mixed = token_spans(columns([*done(40), *half, *refusals(5, outcome)[1:]]), window, mode)
    assert plain is not None
    assert mixed is not None
    assert plain.tokens_per_s == mixed.tokens_per_s
    assert plain.tokens.sum() == mixed.tokens.sum()


def test_both_rates_stand_below_the_table() -> None:
    plain = cell("off", 4, 100.0)
    assert not [remark for remark in _cell_remarks(plain) if "requests" in remark]
    rates = {"refusal_rate": Interval(0.1, 0.2, 0.3), "failure_rate": Interval(0.0, 0.05, 0.1)}
    figures = dict(plain.figures) | rates
    assert _cell_remarks(replace(plain, figures=figures)) == [
        "failed requests: 5 %",
        "refused requests: 20 %",
    ]
