"""Arrival processes: exact times where there is no chance, stated bounds where there is."""

from __future__ import annotations

import math
from itertools import islice, pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.arrival_trace import read_arrival_trace
from loadgen.arrivals import Stretch, constant_gaps, due_times, gamma_gaps, poisson_gaps
from loadgen.traffic import TrafficError

DRAWN = 20_000


def test_constant_arrivals_are_a_ruler() -> None:
    flat = Stretch(10.0, 2.0, 4.0, 4.0)
    assert [at for at, _ in due_times([flat], constant_gaps())] == [10.0 + n / 4 for n in range(8)]


def test_a_ramp_gathers_its_arrivals_where_the_rate_is() -> None:
    """From 0 to 2 a second over 4 s: the integral is t^2 / 4, so arrival n is at 2 sqrt(n)."""
    ramp = [Stretch(0.0, 4.0, 0.0, 2.0), Stretch(4.0, 1.0, 2.0, 2.0)]
    found = list(due_times(ramp, constant_gaps()))
    assert found == [
        (0.0, 0),
        (2.0, 0),
        (round(2 * math.sqrt(2), 9), 0),
        (round(2 * math.sqrt(3), 9), 0),
        (4.0, 1),
        (4.5, 1),
    ]


@given(
    before=st.floats(0, 50),
    after=st.floats(0, 50),
    duration=st.floats(0.1, 100),
    share=st.floats(0.001, 1),
)
def test_the_clock_is_the_inverse_of_the_rate_s_integral(
    before: float, after: float, duration: float, share: float
) -> None:
    stretch = Stretch(0.0, duration, before, after)
    if stretch.arrivals < 1e-6:
        return
    x = stretch.at(share * stretch.arrivals)
    slope = (after - before) / duration
    assert before * x + slope * x * x / 2 == pytest.approx(share * stretch.arrivals, rel=1e-6)
    assert 0 <= x <= duration * (1 + 1e-6)


def test_a_rate_of_nothing_has_no_arrivals() -> None:
    silence = [Stretch(0.0, 5.0, 0.0, 0.0), Stretch(5.0, 2.0, 1.0, 1.0)]
    assert list(due_times(silence, constant_gaps())) == [(5.0, 1), (6.0, 1)]


@pytest.mark.parametrize("cv", [0.25, 1.0, 3.0])
def test_gamma_gaps_have_their_mean_and_spread(cv: float) -> None:
    """The mean of n gaps scatters by cv / sqrt(n), their cv by less than 2 (1 + cv) times that: 5 of each."""
    gaps = list(islice(gamma_gaps(cv, Random("gamma")), DRAWN))
    mean = sum(gaps) / DRAWN
    sd = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / DRAWN)
    assert mean == pytest.approx(1.0, abs=5 * cv / math.sqrt(DRAWN))
    assert sd / mean == pytest.approx(cv, abs=10 * cv * (1 + cv) / math.sqrt(DRAWN))


def test_poisson_gaps_are_exponential() -> None:
    """Share above x = exp(-x); a share of n draws scatters by less than 0.5 / sqrt(n): 5 of it."""
    gaps = list(islice(poisson_gaps(Random("poisson")), DRAWN))
    for x in (0.1, 0.5, 1.0, 2.0):
        share = sum(gap > x for gap in gaps) / DRAWN
        assert share == pytest.approx(math.exp(-x), abs=2.5 / math.sqrt(DRAWN))


@given(st.text(max_size=8), st.floats(0.1, 5))
def test_times_ascend_and_a_name_gives_one_course(name: str, cv: float) -> None:
    def course() -> list[float]:
        flat = [Stretch(0.0, 10.0, 5.0, 5.0)]
        return [at for at, _ in due_times(flat, gamma_gaps(cv, Random(name)))]

    times = course()
    assert times == course()
    assert all(before <= after for before, after in pairwise(times))
    assert all(0 <= at <= 10 for at in times)


def test_the_course_of_a_name_is_the_same_on_any_machine() -> None:
    flat = [Stretch(0.0, math.inf, 2.0, 2.0)]
    poisson = [at for at, _ in islice(due_times(flat, poisson_gaps(Random("0/0/1/arrivals"))), 4)]
    gamma = [at for at, _ in islice(due_times(flat, gamma_gaps(2.0, Random("0/0/1/arrivals"))), 4)]
    assert (poisson, gamma) == (POISSON, GAMMA)


POISSON = [0.414309208, 0.80731671, 1.459872678, 1.944539542]
GAMMA = [0.055742917, 0.832285852, 0.884903887, 1.187368386]


def test_a_trace_is_seconds_a_line_or_json_lines(tmp_path: Path) -> None:
    plain, lines = tmp_path / "a.txt", tmp_path / "b.jsonl"
    plain.write_text("\ufeff# due seconds\n  # of a morning\n3\n\n3.5\n3.5\n10\n", encoding="utf-8")
    lines.write_text('{"timestamp": 3}\n{"due_s": 3.5, "timestamp": 99}\n{"arrival_time": 4}\n')
    assert read_arrival_trace(plain) == (0.0, 0.5, 0.5, 7.0)
    assert read_arrival_trace(lines) == (0.0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no time"),
        ("1\nsoon\n", "line 2 = 'soon': write a number of seconds"),
        ('{"at": 1}\n', "line 1 = "),
        ("1\nNaN\n", "line 2 = 'NaN'"),
        ("2\n1\n", "arrival 2 (1 s) is before the last; sort them"),
        ("true\n", "line 1 = 'true'"),
        ("-1e308\n1e308\n", "are the times in seconds?"),
        ('{"timestamp": 0}\n{"timestamp": 3600000}\n', "spans 3.6e+06 s, more than 1000000"),
    ],
)
def test_a_bad_trace_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "due.txt"
    path.write_text(text)
    with pytest.raises(TrafficError, match="trace ") as caught:
        read_arrival_trace(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trace_without_end_is_refused_and_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadgen.arrival_trace.MOST_ARRIVALS", 3)
    path = tmp_path / "due.txt"
    path.write_text("1\n" * 4)
    with pytest.raises(TrafficError, match="more than 3 arrivals; cut it to a part"):
        read_arrival_trace(path)
    with pytest.raises(TrafficError, match="line 1 = "):
        read_arrival_trace(Path("/dev/zero"))


def test_a_trace_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TrafficError, match="cannot be read"):
        read_arrival_trace(tmp_path / "none.txt")
