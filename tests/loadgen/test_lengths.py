"""Lengths have the law they were given, whole numbers within their bounds, equal on any machine."""

from __future__ import annotations

import math
from random import Random
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.lengths import drawn
from suites.model import Lengths

DRAWS = 20_000


def sample(lengths: Lengths, seed: int = 1) -> list[int]:
    rng = Random(seed)
    return [drawn(lengths, rng) for _ in range(DRAWS)]


def test_a_fixed_number_draws_nothing() -> None:
    rng = Random(3)
    before = rng.getstate()
    assert drawn(180, rng) == 180
    assert rng.getstate() == before


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_mean_and_sd_are_those_of_the_lengths_themselves(kind: str) -> None:
    """4 standard errors: of the mean sd / sqrt(n); of the sd less than 1.6 sd / sqrt(n) at these shapes."""
    lengths = sample(Lengths(kind, mean=300.0, sd=60.0))
    assert abs(fmean(lengths) - 300) < 4 * 60 / math.sqrt(DRAWS)
    assert abs(stdev(lengths) - 60) < 4 * 1.6 * 60 / math.sqrt(DRAWS)


def test_uniform_reaches_both_ends_alike() -> None:
    """Each of 10 values is expected 2,000 times, sd 42; 4.5 sd are allowed."""
    lengths = sample(Lengths("uniform", min=5, max=14))
    assert sorted(set(lengths)) == list(range(5, 15))
    assert max(abs(lengths.count(n) - 2000) for n in range(5, 15)) < 4.5 * 42


def test_bounds_cut_the_tails_off_and_nothing_heaps_up_there() -> None:
    lengths = sample(Lengths("normal", mean=100.0, sd=50.0, min=80, max=120))
    assert (min(lengths), max(lengths)) == (80, 120)
    assert lengths.count(80) < 1.3 * lengths.count(100)


@given(
    st.sampled_from(["normal", "lognormal"]),
    st.floats(1, 1e5),
    st.floats(0.1, 1e5),
    st.integers(1, 1000),
    st.integers(0, 1000),
    st.integers(0, 10**6),
)
def test_any_law_stays_within_its_bounds(
    kind: str, mean: float, sd: float, low: int, span: int, seed: int
) -> None:
    assert low <= drawn(Lengths(kind, mean, sd, low, low + span), Random(seed)) <= low + span
    assert drawn(Lengths(kind, mean, sd), Random(seed)) >= 1


def test_the_same_lengths_on_any_machine() -> None:
    rng = Random("1/0/4/0/lengths")
    laws = [
        Lengths("lognormal", 200.0, 80.0),
        Lengths("normal", 200.0, 80.0),
        Lengths("uniform", min=1, max=400),
    ]
    assert [drawn(law, rng) for law in laws for _ in range(3)] == DRAWN


DRAWN = [121, 170, 186, 186, 182, 302, 359, 214, 43]
