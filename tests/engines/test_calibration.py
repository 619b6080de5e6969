"""Logit offsets: exact without heterogeneity, and by an independent integral with it."""

from __future__ import annotations

import numpy as np
import pytest

from engines.embedded.calibration import (
    AcceptanceCurveError,
    check_curve,
    extended,
    logit_offsets,
    sigmoid,
)

CURVE = (0.8, 0.62, 0.48, 0.37)


def by_rounds(theta: tuple[float, ...], sd: float, depth: int) -> list[float]:
    """Accepted_p / drafts at `depth`, by a plain Riemann sum over z: E[S_p / T] / E[1 / T]."""
    z = np.linspace(-8 * sd, 8 * sd, 20_001)
    density = np.exp(-0.5 * (z / sd) ** 2)
    survival = np.cumprod(sigmoid(np.array(theta)[:depth, None] + z), axis=0)
    rounds = density / (1 + survival.sum(axis=0))
    return [float((row * rounds).sum() / rounds.sum()) for row in survival]


def test_without_heterogeneity_the_offsets_are_conditional_logits() -> None:
    conditional = sigmoid(np.array(logit_offsets(CURVE, 0.0, 4)))
    assert conditional.tolist() == pytest.approx([0.8, 0.62 / 0.8, 0.48 / 0.62, 0.37 / 0.48])


@pytest.mark.parametrize("sd", [0.1, 0.7, 1.5, 3.0])
def test_the_published_curve_is_met_over_rounds(sd: float) -> None:
    assert by_rounds(logit_offsets(CURVE, sd, 4), sd, 4) == pytest.approx(CURVE, abs=2e-6)


def test_offsets_do_not_depend_on_how_many_are_asked_for() -> None:
    assert logit_offsets(CURVE, 0.7, 2) == pytest.approx(logit_offsets(CURVE, 0.7, 4)[:2])


def test_uncorrected_offsets_would_miss_the_curve() -> None:
    """What the solution is for: plain conditional logits are off by more than .01 somewhere at sd .7."""
    naive = by_rounds(logit_offsets(CURVE, 0.0, 4), 0.7, 4)
    assert max(abs(got - want) for got, want in zip(naive, CURVE, strict=True)) > 0.01


def test_certain_acceptance_and_rejection_stay_exact() -> None:
    always, never = logit_offsets((1.0, 1.0, 0.0), 1.0, 3)[0], logit_offsets((1.0, 1.0, 0.0), 1.0, 3)[2]
    assert float(sigmoid(np.array([always]))[0]) == 1.0
    assert float(sigmoid(np.array([never]))[0]) < 1e-17


def test_a_curve_goes_on_at_its_last_conditional_rate() -> None:
    assert extended((0.8, 0.6), 4) == pytest.approx((0.8, 0.6, 0.45, 0.3375))
    assert extended((0.5,), 3) == pytest.approx((0.5, 0.25, 0.125))
    assert extended((0.8, 0.0), 3) == (0.8, 0.0, 0.0)
    assert extended((0.8, 0.6, 0.5), 2) == (0.8, 0.6, 0.5)


@pytest.mark.parametrize("curve", [(0.5, 0.6), (1.2,), (-0.1,), (float("nan"),), (0.8, 0.7, 0.71)])
def test_an_impossible_curve_is_refused(curve: tuple[float, ...]) -> None:
    with pytest.raises(AcceptanceCurveError, match=r"acceptance\.chat a_\d="):
        check_curve("chat", curve)


def test_an_empty_curve_is_refused() -> None:
    with pytest.raises(AcceptanceCurveError, match=r"acceptance\.chat is empty"):
        check_curve("chat", ())
