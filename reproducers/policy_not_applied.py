"""vllm#51510, vllm#35060: the scheduler says K=0 and the drafter always runs 2: a policy that is not applied.

The bars below were declared before the first run. Step records carry the depth that was chosen and the one
that the drafter ran. They may differ in a step whose last request finished: 1 % of the steps means nothing.
A server without step records is known by its counters: drafts that are verified although K=0 was chosen.

The interval first declared for the figure, 1.0-1.5, was wrong in kind: it took the drafts for verified. Where
K=0 is chosen they are made and thrown away.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from reports.judgement import CellFigures, Interval, Judgement
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_penalties
from reproducers.contract import Control, Expected, Reproducer
from reproducers.findings import NOT_APPLIED, Finding, State, left_out, verdict
from reproducers.script import run_script

IGNORED: Final = (
    0.5  # share of decoding steps in which another K ran than was chosen: at least, in every cell
)
APPLIED: Final = 0.01  # ... at most, in every cell
DRAFTED: Final = 0.05  # drafts verified per token emitted where K=0 was chosen: more is not 0


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: under K=0 the drafter drafts, while in the arm whose K it runs anyway nothing differs."""
    subject = _cells(judgement, "fixed_0")
    findings = (
        unapplied_steps(subject) or drafts_at_zero(subject),
        control(_cells(judgement, "fixed_2")),
    )
    concurrencies = sorted({cell.concurrency for cell in judgement.cells})
    return ReproductionSummary(
        name=REPRODUCER.name,
        report=REPRODUCER.report,
        title=REPRODUCER.symptom,
        verdict=verdict(judgement, findings, symptom=NOT_APPLIED),
        ratio=throughputs.ratio("fixed_0", "off", concurrencies),
        published=REPRODUCER.published,
        evidence=(*(finding.sentence for finding in findings), *left_out(judgement, NOT_APPLIED)),
        ratio_of="tokens/s of fixed K=0 over no speculation, all concurrencies",
    )


def unapplied_steps(cells: Iterable[CellFigures]) -> Finding | None:
    """By step records, in every cell; None where the engine keeps none."""
    share = _spread("unapplied_share", cells)
    if share is None:
        return None
    state = State.MET if share.low >= IGNORED else State.REFUTED if share.high <= APPLIED else State.OPEN
    claim = "fixed K=0: another K ran than was chosen"
    return Finding(state, claim, f"in {share.low:.0%} to {share.high:.0%} of the decoding steps of a cell")


def drafts_at_zero(cells: Iterable[CellFigures]) -> Finding:
    """By the engine's counters of verified drafts."""
    claim = "fixed K=0: drafts are verified all the same, by the server's counters"
    verified = _spread("verified_per_emitted", cells)
    if verified is None:
        return Finding(State.OPEN, claim, "the server publishes no counters of drafts")
    state = State.MET if verified.low > DRAFTED else State.REFUTED if verified.high <= DRAFTED else State.OPEN
    return Finding(state, claim, f"{verified.low:.2f} to {verified.high:.2f} a token emitted")


def control(cells: Iterable[CellFigures]) -> Finding:
    """Where chosen and running K are the same the records must say so, or they say nothing of K=0 either."""
    claim = "control: fixed K=2 ran as it was chosen"
    share, verified = _spread("unapplied_share", cells), _spread("verified_per_emitted", cells)
    if share is not None:
        state = State.MET if share.high <= APPLIED else State.OPEN
        return Finding(
            state, claim, f"another K in {share.low:.0%} to {share.high:.0%} of the steps of a cell"
        )
    if verified is not None:
        state = State.MET if verified.low > DRAFTED else State.OPEN
        return Finding(
            state, claim, f"{verified.low:.2f} to {verified.high:.2f} drafts verified a token emitted"
        )
    return Finding(State.OPEN, claim, "neither step records nor counters of drafts")


def _cells(judgement: Judgement, arm: str) -> list[CellFigures]:
    return [cell for cell in judgement.cells if cell.arm == arm]


def _spread(name: str, cells: Iterable[CellFigures]) -> Interval | None:
    """Least, middle and most over the cells; None unless every cell knows it."""
    values = sorted(cell.points.get(name, -1.0) for cell in cells)
    if not values or values[0] < 0:
        return None
    return Interval(values[0], values[len(values) // 2], values[-1])


REPRODUCER = Reproducer(
    name="policy-not-applied",
    report="vllm#51510",
    symptom="the depth that a policy chose is not the depth that the drafter runs",
    trigger="a policy that says K=0 on an engine whose drafter always runs 2",
    published="scheduler says K=0, drafter always runs 2; an option validated and unused (vllm#35060)",
    published_figure=None,
    penalties=("policy_ignored",),
    suite="policy-not-applied",
    subject="fixed_0",
    assess=assess,
    control=Control("the drafter runs the K that was chosen", with_penalties(policy_ignored=None)),
    expected=Expected(
        0.55, 0.85
    ),  # drafts made in vain: .67-.72 measured on an H200, docs/measured (runner V2)
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
