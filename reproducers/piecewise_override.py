"""vllm#49548: arming a depth schedule turns FULL graphs into PIECEWISE ones, even when its K never changes.

The bars below were declared before the first run. A schedule of one range asks for the same K in every step
as the fixed arm: whatever it loses is the price of being armed, at one request too.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Judgement
from reports.pooled import Throughputs, repeat_figures
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_penalties
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.findings import below, within
from reproducers.needs import graphs, unarmed_server
from reproducers.script import run_script
from reproducers.summary import summary

BAR: Final = 0.9  # armed / fixed, over all concurrencies and at one request alone
SAME: Final = 1.05  # drafts verified per token of the one over the other: the same K ran
SUBJECT: Final = "armed"


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: armed loses to fixed at the same K, already at one request."""
    concurrencies = sorted({cell.concurrency for cell in judgement.cells})
    override = throughputs.ratio(SUBJECT, "fixed_2", concurrencies)
    verified = repeat_figures(judgement, "verified_per_emitted", throughputs.confidence)
    findings = (
        below("schedule armed / the same K fixed, all concurrencies", override, BAR),
        below("the same at c=1", throughputs.ratio(SUBJECT, "fixed_2", (1,)), BAR),
        within(
            "drafts verified per token, armed / fixed",
            verified.ratio(SUBJECT, "fixed_2", concurrencies),
            1 / SAME,
            SAME,
        ),
    )
    return summary(
        REPRODUCER,
        judgement,
        findings,
        override,
        "tokens/s of a schedule that always says 2 over fixed K=2, all concurrencies",
    )


REPRODUCER = Reproducer(
    name="piecewise-override",
    report="vllm#49548",
    symptom="a schedule whose K never changes is slower than the same K fixed, from one request on",
    trigger="a depth schedule is armed: FULL graphs are replaced by PIECEWISE ones in every step",
    published="single stream 59.6 -> 50.0 tok/s on a GB10; H200 408 -> 230 at c=1, every step PIECEWISE",
    published_figure=Published(
        230 / 408, 50.0 / 59.6, "c=1: 50.0 over 59.6 (GB10), 230 over 408 (H200) tok/s"
    ),
    penalties=("piecewise_downgrade",),
    suite="piecewise-override",
    subject=SUBJECT,
    assess=assess,
    control=Control("graphs stay FULL with a schedule armed", with_penalties(piecewise_downgrade=False)),
    expected=Expected(
        0.33, 0.56
    ),  # measured on an H200, K=2 PIECEWISE over K=2: 136/408 at c=1 to 659/1228 at c=4
    needs=(graphs, unarmed_server),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
