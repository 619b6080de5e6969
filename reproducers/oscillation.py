"""sglang#27508: an adaptive depth without a dead band swings several times a second and gains nothing.

The bars below were declared before the first run. The policy is SGLang's (governors/ema_ladder.py) with
both margins at 0. The suite's acceptance drifts as widely as the average in sglang-glm53-flash-sm120#10
(1.45 to 2.76 drafts accepted around the rungs 3 and 5): that K swings is sized; what is not is how often,
what a dead band with back-off leaves of it, and what it costs. The back-off is ours (no rise for a while
after a drop) and leaves half of the switches where SGLang's left a quarter. The bar on switches is the
budget that other suites set.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Judgement
from reports.pooled import Throughputs, repeat_figures
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_arm
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.findings import above, below, within
from reproducers.needs import step_records
from reproducers.script import run_script
from reproducers.summary import summary

SUBJECT: Final = "ladder"
STEADIED: Final = "steadied"
SWITCHES: Final = 20.0  # per 1,000 steps after the load settles
LEFT: Final = 0.6  # switches with dead band and back-off / without
SAME: Final = 0.95  # throughput of one over the other, and its inverse; reported: within -2.9 to +2.0 %


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: K switches often, far less with a dead band, and throughput is the same."""
    concurrencies = sorted({cell.concurrency for cell in judgement.cells})
    switches = repeat_figures(judgement, "switches_per_1k_steps")
    left = switches.ratio(STEADIED, SUBJECT, concurrencies)
    findings = (
        above(
            "no dead band: switches per 1,000 settled steps", switches.mean(SUBJECT, concurrencies), SWITCHES
        ),
        below("switches with dead band and back-off / without", left, LEFT),
        within(
            "tokens/s without dead band / with",
            throughputs.ratio(SUBJECT, STEADIED, concurrencies),
            SAME,
            1 / SAME,
        ),
    )
    return summary(
        REPRODUCER,
        judgement,
        findings,
        left,
        "switches per step with dead band and back-off over without",
    )


REPRODUCER = Reproducer(
    name="oscillation",
    report="sglang#27508",
    symptom="K swings between two rungs several times a second, for nothing",
    trigger="an adaptive depth without a dead band, and acceptance that drifts across a rung's bound",
    published="with back-off 94 -> 22 switches, throughput within -2.9 to +2.0 %; elsewhere 3<->5 several "
    "times a second, average 1.45 -> 2.76 -> 1.51 (sglang-glm53-flash-sm120#10)",
    published_figure=Published(22 / 94, 22 / 94, "22 over 94 switches, three runs each"),
    penalties=(),
    suite="oscillation",
    subject=SUBJECT,
    assess=assess,
    control=Control(
        "the same dead band and back-off in both arms",
        with_arm(SUBJECT, "ema_ladder", down=-0.75, hold_updates=16),
    ),
    expected=Expected(0.1, 0.5),
    needs=(step_records,),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
