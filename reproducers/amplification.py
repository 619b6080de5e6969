"""llama.cpp#22931: K=8 at low acceptance: the target verifies five drafts for every token that comes out.

The bars below were declared before the first run. Verified drafts per emitted token is K over the acceptance
length: it needs no clock, so it compares between machines, and throughput beside it says that it hurts. The
suite's acceptance was sized to the report's 2,083 verified for 420 emitted: that our figure agrees is no test
of the model, only of the metric. The report does not say its hardware; the size of its loss (0.20) is not
modelled, only that there is one.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Interval, Judgement
from reports.pooled import Throughputs, repeat_figures
from reports.reproduction import ReproductionSummary
from reproducers.changes import nine_of_ten, with_acceptance
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.findings import above, below
from reproducers.script import run_script
from reproducers.summary import summary

SUBJECT: Final = "fixed_8"
DEPTH: Final = 8
AMPLIFIED: Final = 3.0  # verified drafts per emitted token; a drafter that suits K=8 needs about 1.3
LOSS: Final = 0.75  # K=8 / no speculation
SUITS: Final = nine_of_ten(DEPTH)


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: K=8 verifies far more than it emits, and throughput pays for it."""
    concurrencies = sorted({cell.concurrency for cell in judgement.cells})
    amplification = verified_per_emitted(judgement, concurrencies)
    findings = (
        above("K=8: drafts verified per token emitted", amplification, AMPLIFIED),
        below("K=8 / no speculation", throughputs.ratio(SUBJECT, "off", concurrencies), LOSS),
    )
    return summary(
        REPRODUCER,
        judgement,
        findings,
        amplification,
        "drafts verified per token emitted at K=8",
        figure_is="amplification",
    )


def verified_per_emitted(judgement: Judgement, concurrencies: list[int]) -> Interval | None:
    """From step records; where the engine keeps none, K over the acceptance length of its counters."""
    counted = repeat_figures(judgement, "verified_per_emitted").mean(SUBJECT, concurrencies)
    if counted is not None:
        return counted
    length = repeat_figures(judgement, "acceptance_length").mean(SUBJECT, concurrencies)
    if length is None or length.low <= 0:
        return None
    return Interval(DEPTH / length.high, DEPTH / length.point, DEPTH / length.low)


REPRODUCER = Reproducer(
    name="amplification",
    report="llama.cpp#22931",
    symptom="a deep K at low acceptance verifies several drafts for each token that comes out",
    trigger="K=8 with a drafter whose first draft passes in two of five rounds",
    published="MTP n_max=8 against none: 56.5 -> 11.4 tok/s; 2,083 verified tokens for 420 emitted",
    published_figure=Published(4.7, 2083 / 420, "2,083 verified for 420 emitted; 4.7 in the report's words"),
    penalties=(),
    suite="amplification",
    subject=SUBJECT,
    assess=assess,
    control=Control(
        "nine of ten drafts pass at every position",
        with_acceptance(SUITS),
    ),
    expected=Expected(4.5, 5.3),  # the acceptance of the suite was sized to 4.96
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
