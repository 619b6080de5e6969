"""ArcticInference#185: suffix decoding falls below no speculation above some 20 concurrent requests.

The bars below were declared before the first run. The figure is the concurrency at which speculation
breaks even, for this drafter class alone (dflash-below-baseline has its own). Suffix drafts cost the
device nothing, so what falls is what verification of failing drafts costs. The profile's acceptance and
CPU cost are assumed, not sized to the report, which names neither hardware nor model: that there is a
threshold is shown; where it lies is only expected within a factor of some three.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Judgement
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary
from reproducers.changes import nine_of_ten, with_acceptance
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.crossing import assess_crossing
from reproducers.needs import drafter_of
from reproducers.script import run_script

DEPTH: Final = 8


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: suffix drafts win at one request and lose at many."""
    return assess_crossing(REPRODUCER, judgement, throughputs)


REPRODUCER = Reproducer(
    name="suffix-below-baseline",
    report="ArcticInference#185",
    symptom="suffix decoding falls below no speculation as concurrency rises",
    trigger="drafts that mostly fail, and a batch whose verification is no longer free",
    published="output throughput below no speculation above 20 concurrent requests",
    published_figure=Published(20.0, 20.0, "max-concurrency > 20"),
    penalties=(),
    suite="suffix-below-baseline",
    subject="fixed_8",
    assess=assess,
    control=Control(
        "text that repeats itself: nine of ten drafts pass",
        with_acceptance(nine_of_ten(DEPTH)),
    ),
    expected=Expected(8.0, 64.0),
    needs=(drafter_of("suffix"),),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
