"""Findings: claims of a reproducer held against bars declared before the run; and their verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from reports.judgement import Interval, Judgement
from reports.reproduction import ReproductionVerdict

NEEDS = "needs two whole, valid repeats of every arm"


class State(StrEnum):
    """`open`: the numbers do not decide it, or are not there."""

    MET = "met"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Finding:
    """`detail`: the numbers beside the bar."""

    state: State
    claim: str
    detail: str

    @property
    def sentence(self) -> str:
        return f"{self.state}: {self.claim}: {self.detail}"


def below(claim: str, interval: Interval | None, bar: float) -> Finding:
    """Met when the whole interval is below the bar, refuted when it is wholly at or above it."""
    if interval is None:
        return Finding(State.OPEN, claim, NEEDS)
    state = State.MET if interval.high < bar else State.REFUTED if interval.low >= bar else State.OPEN
    return Finding(state, claim, f"{_shown(interval)}, bar < {bar:g}")


def within(claim: str, interval: Interval | None, low: float, high: float) -> Finding:
    """A control: met when the whole interval lies in low..high. Never refuted: else it decides nothing."""
    if interval is None:
        return Finding(State.OPEN, claim, NEEDS)
    met = low <= interval.low and interval.high <= high
    return Finding(State.MET if met else State.OPEN, claim, f"{_shown(interval)}, in {low:.2f} to {high:.2f}")


def _shown(interval: Interval) -> str:
    return f"{interval.point:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def verdict(
    judgement: Judgement, findings: Sequence[Finding], symptom: str | None = None
) -> ReproductionVerdict:
    """Reproduced: every finding is met. Not reproduced: one is refuted. Invalid: a cell in them is.

    `symptom`: words of a reason for which the judge calls a cell invalid, and which is what is looked for.
    """
    reasons = [reason for cell in judgement.cells for reason in cell.invalid]
    if any(symptom is None or symptom not in reason for reason in reasons):
        return ReproductionVerdict.INVALID
    states = {finding.state for finding in findings}
    if State.REFUTED in states:
        return ReproductionVerdict.NOT_REPRODUCED
    return ReproductionVerdict.REPRODUCED if states == {State.MET} else ReproductionVerdict.INCONCLUSIVE
