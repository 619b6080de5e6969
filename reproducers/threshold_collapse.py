"""vllm#49548: a batch-size schedule collapses throughput once the batch crosses its threshold.

The bars below were declared before the first run. An engine penalty costs 0.05-0.7x and sets in at the
threshold; the economic crossover costs 0.5-0.9x, is smooth, and cannot push K=0 below no speculation.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Judgement
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_penalties
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.findings import below
from reproducers.script import run_script
from reproducers.summary import summary

THRESHOLD: Final = 4  # the schedule's last batch with K > 0
COLLAPSE_BAR: Final = 0.75  # schedule / fixed_2 above the threshold
NOT_ECONOMIC_BAR: Final = 0.9  # schedule / off above the threshold, where both decode with K=0
AT_THRESHOLD_BAR: Final = 1.0  # (schedule / fixed_2 above) / (the same at or below)


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: all three conditions met. Not reproduced: one is refuted. On valid repeats."""
    concurrencies = sorted({cell.concurrency for cell in judgement.cells})
    above = [concurrency for concurrency in concurrencies if concurrency > THRESHOLD]
    at_or_below = [concurrency for concurrency in concurrencies if concurrency <= THRESHOLD]
    collapse = throughputs.ratio("schedule", "fixed_2", above)
    findings = (
        below(f"schedule / fixed K=2 at c > {THRESHOLD}", collapse, COLLAPSE_BAR),
        below(
            f"schedule / no speculation at c > {THRESHOLD}, where the schedule says K=0 too",
            throughputs.ratio("schedule", "off", above),
            NOT_ECONOMIC_BAR,
        ),
        below(
            f"loss above the threshold / loss at c <= {THRESHOLD}",
            throughputs.ratio_of_ratios("schedule", "fixed_2", above, at_or_below),
            AT_THRESHOLD_BAR,
        ),
    )
    return summary(
        REPRODUCER, judgement, findings, collapse, f"tokens/s of schedule over fixed K=2, c > {THRESHOLD}"
    )


REPRODUCER = Reproducer(
    name="threshold-collapse",
    report="vllm#49548",
    symptom="throughput collapses once the batch crosses the threshold of a depth schedule",
    trigger="a schedule [[1,4,2],[5,512,0]] and more than 4 concurrent requests",
    published="GB10, 8 x 180 tokens: fixed K=2 232 tok/s in 6.3 s; schedule 24-157 tok/s in 40-60 s",
    published_figure=Published(24 / 232, 157 / 232, "24-157 over 232 tok/s"),
    penalties=("piecewise_downgrade", "zero_depth_sync"),
    suite="threshold-collapse",
    subject="schedule",
    assess=assess,
    control=Control(
        "graphs stay FULL with a schedule armed, and K=0 runs no drafter forward",
        with_penalties(piecewise_downgrade=False, zero_depth_sync=False),
    ),
    expected=Expected(0.2, 0.45),  # measured on an H200: .27 (.23-.32) and .31 (.28-.35), docs/measured
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
