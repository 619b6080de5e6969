"""vllm#42505: DFlash falls below no speculation above 8 concurrent requests.

The bars below were declared before the first run. The figure is the concurrency at which speculation
breaks even, for this drafter class alone (suffix-below-baseline has its own). The report's pair is
Qwen3.5-35B-A3B on an RTX PRO 6000; the profile is another pair, Qwen3-4B on an RTX 5090, fitted to
pegainfer's figures at 1 and 16 requests: that it wins at 1 and loses at 16 is sized, not to this report;
where between them it breaks even is not.
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

DEPTH: Final = 7


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: DFlash blocks win at one request and lose at many."""
    return assess_crossing(REPRODUCER, judgement, throughputs)


REPRODUCER = Reproducer(
    name="dflash-below-baseline",
    report="vllm#42505",
    symptom="DFlash falls below no speculation as concurrency rises",
    trigger="whole blocks verified for two or three tokens that pass, at more than 8 requests",
    published="Qwen3.5-35B-A3B, RTX PRO 6000: slower than no speculation at concurrency above 8",
    published_figure=Published(8.0, 8.0, "concurrency > 8"),
    penalties=(),
    suite="dflash-below-baseline",
    subject="fixed_7",
    assess=assess,
    control=Control(
        "text that is easy to foresee: nine of ten drafts pass",
        with_acceptance(nine_of_ten(DEPTH)),
    ),
    expected=Expected(6.0, 14.0),  # pegainfer's and vLLM's columns for this pair cross at 12 and at 9
    needs=(drafter_of("dflash"),),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
