"""vllm#5000: speculation that is "disabled" above a batch size costs 2-7 %: the least that must be seen.

The bars below were declared before the first run. One per cent is what the gate must resolve: the interval of
the tax lies below that, it is narrower than the tax itself, and no speculation agrees with itself within it.

The first run, on h100-llama3.1-8b-eagle, missed the declared interval: 0.90, since a layer and a head beside
an 8B are no small drafter. The report's target has 70B; the suite now takes the largest dense model that is
profiled, 27B. Bars and expectation are as they were.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Interval, Judgement
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_penalties
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.findings import NEEDS, Finding, State, below, within
from reproducers.script import run_script
from reproducers.summary import summary

BAR: Final = 0.99  # disabled / no speculation
AGAIN: Final = 0.99  # no speculation / itself, and its inverse
SUBJECT: Final = "disabled"


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: a tax of more than 1 %, resolved, where no speculation equals itself."""
    concurrencies = sorted({cell.concurrency for cell in judgement.cells})
    tax = throughputs.ratio(SUBJECT, "off", concurrencies)
    findings = (
        below("speculation disabled / no speculation", tax, BAR),
        resolved(tax),
        within(
            "control: no speculation / no speculation, a second time",
            throughputs.ratio("off_again", "off", concurrencies),
            AGAIN,
            1 / AGAIN,
        ),
    )
    return summary(
        REPRODUCER,
        judgement,
        findings,
        tax,
        "tokens/s of speculation disabled by batch size over no speculation, c=8",
    )


def resolved(tax: Interval | None) -> Finding:
    """An interval wider than the effect says little of its size: that is open, and refutes nothing."""
    claim = "the interval is narrower than the tax"
    if tax is None:
        return Finding(State.OPEN, claim, NEEDS)
    width, effect = tax.high - tax.low, 1 - tax.point
    state = State.MET if width < effect else State.OPEN
    return Finding(state, claim, f"{100 * width:.1f} points wide, tax {100 * effect:.1f} %")


REPRODUCER = Reproducer(
    name="small-tax",
    report="vllm#5000",
    symptom="speculation switched off by batch size is a few per cent slower than none",
    trigger="8 requests, above the batch size up to which it speculates: the drafter's forward still runs",
    published="batch of 8: 5.4 s without speculation, 5.8 s disabled, 5.5 s with the fix",
    published_figure=Published(5.4 / 5.8, 5.4 / 5.5, "5.4 over 5.8 s (disabled), 5.4 over 5.5 s (fixed)"),
    penalties=("zero_depth_sync",),
    suite="small-tax",
    subject=SUBJECT,
    assess=assess,
    control=Control("disabled steps run no drafter forward", with_penalties(zero_depth_sync=None)),
    expected=Expected(0.93, 0.98),  # 2-7 %, as published
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
