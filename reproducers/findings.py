"""Findings: claims of a reproducer held against bars declared before the run; and their verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from reports.judgement import Interval, Judgement
from reports.reproduction import ReproductionVerdict

NOT_APPLIED = "policy not applied"  # how reports.step_series begins its reason
NEEDS = "not known: needs two whole, valid repeats of every arm, and an engine that counts it"


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


def above(claim: str, interval: Interval | None, bar: float) -> Finding:
    """Met when the whole interval is above the bar, refuted when it is wholly at or below it."""
    if interval is None:
        return Finding(State.OPEN, claim, NEEDS)
    state = State.MET if interval.low > bar else State.REFUTED if interval.high <= bar else State.OPEN
    return Finding(state, claim, f"{_shown(interval)}, bar > {bar:g}")


def granted(found: Finding) -> Finding:
    """What the report presupposes is met or open, never refuted: without it the question was not put."""
    return replace(found, state=State.OPEN) if found.state is State.REFUTED else found


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
    """Reproduced: every finding is met. Not reproduced: one is refuted. Invalid: they decide nothing, and
    some cells were spoiled; or a policy was not applied, so that its arm is not what it is called.

    Findings over throughputs rest on whole repeats without a spoiled cell. `symptom`: words of a reason for
    which the judge calls a cell invalid, and which is what is looked for; any other reason then spoils all.
    """
    reasons = [reason for cell in judgement.cells for reason in cell.invalid]
    fatal = [
        reason for reason in reasons if (NOT_APPLIED in reason if symptom is None else symptom not in reason)
    ]
    if fatal:
        return ReproductionVerdict.INVALID
    states = {finding.state for finding in findings}
    if State.REFUTED in states:
        return ReproductionVerdict.NOT_REPRODUCED
    if states == {State.MET}:
        return ReproductionVerdict.REPRODUCED
    return ReproductionVerdict.INVALID if reasons and symptom is None else ReproductionVerdict.INCONCLUSIVE


def left_out(judgement: Judgement, symptom: str | None = None) -> tuple[str, ...]:
    """A sentence about what the findings do without, and why; none when every cell is valid.

    `symptom`: as in `verdict`; a cell that has it is not spoiled.
    """
    reasons = [
        (f"{cell.arm} c={cell.concurrency}", reason)
        for cell in judgement.cells
        for reason in cell.invalid
        if symptom is None or symptom not in reason
    ]
    if not reasons:
        return ()
    spoiled = list(dict(reasons))
    first = reasons[0][1]
    shown = ", ".join(spoiled[:4]) + (f" and {len(spoiled) - 4} more" if len(spoiled) > 4 else "")
    return (f"left out whole: repeats with a spoiled cell ({shown}), the first since {first}",)
