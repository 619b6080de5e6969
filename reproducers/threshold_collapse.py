"""vllm#49548: a batch-size schedule collapses throughput once the batch crosses its threshold.

The bars below were declared before the first run. An engine penalty costs 0.05-0.7x and sets in at the
threshold; the economic crossover costs 0.5-0.9x, is smooth, and cannot push K=0 below no speculation.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from reports.judgement import Interval, Judgement
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary, ReproductionVerdict
from reproducers.contract import Reproducer
from reproducers.script import run_script

THRESHOLD: Final = 4  # the schedule's last batch with K > 0
COLLAPSE_BAR: Final = 0.75  # schedule / fixed_2 above the threshold
NOT_ECONOMIC_BAR: Final = 0.9  # schedule / off above the threshold, where both decode with K=0
AT_THRESHOLD_BAR: Final = 1.0  # (schedule / fixed_2 above) / (the same at or below)


@dataclass(frozen=True, slots=True)
class Condition:
    """One interval against its bar: met when wholly below, refuted when wholly at or above, else open."""

    claim: str
    interval: Interval | None
    bar: float

    @property
    def met(self) -> bool:
        return self.interval is not None and self.interval.high < self.bar

    @property
    def refuted(self) -> bool:
        return self.interval is not None and self.interval.low >= self.bar

    @property
    def sentence(self) -> str:
        if self.interval is None:
            return f"open: {self.claim}: needs two whole, valid repeats of every arm"
        state = "met" if self.met else "refuted" if self.refuted else "open"
        low, point, high = self.interval.low, self.interval.point, self.interval.high
        return f"{state}: {self.claim}: {point:.2f} ({low:.2f} to {high:.2f}), bar < {self.bar:g}"


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: all three conditions met. Not reproduced: one is refuted. Invalid: a cell in them is."""
    concurrencies = sorted({cell.concurrency for cell in judgement.cells})
    above = [concurrency for concurrency in concurrencies if concurrency > THRESHOLD]
    below = [concurrency for concurrency in concurrencies if concurrency <= THRESHOLD]
    collapse = throughputs.ratio("schedule", "fixed_2", above)
    conditions = (
        Condition(f"schedule / fixed K=2 at c > {THRESHOLD}", collapse, COLLAPSE_BAR),
        Condition(
            f"schedule / no speculation at c > {THRESHOLD}, where the schedule says K=0 too",
            throughputs.ratio("schedule", "off", above),
            NOT_ECONOMIC_BAR,
        ),
        Condition(
            f"loss above the threshold / loss at c <= {THRESHOLD}",
            throughputs.ratio_of_ratios("schedule", "fixed_2", above, below),
            AT_THRESHOLD_BAR,
        ),
    )
    return ReproductionSummary(
        name=REPRODUCER.name,
        report=REPRODUCER.report,
        title=REPRODUCER.symptom,
        verdict=_verdict(judgement, conditions),
        ratio=collapse,
        published=REPRODUCER.published,
        evidence=tuple(condition.sentence for condition in conditions),
        ratio_of=f"tokens/s of schedule over fixed K=2, c > {THRESHOLD}",
    )


def _verdict(judgement: Judgement, conditions: tuple[Condition, ...]) -> ReproductionVerdict:
    if any(cell.invalid for cell in judgement.cells):
        return ReproductionVerdict.INVALID
    if any(condition.refuted for condition in conditions):
        return ReproductionVerdict.NOT_REPRODUCED
    if all(condition.met for condition in conditions):
        return ReproductionVerdict.REPRODUCED
    return ReproductionVerdict.INCONCLUSIVE


REPRODUCER = Reproducer(
    name="threshold-collapse",
    report="vllm#49548",
    symptom="throughput collapses once the batch crosses the threshold of a depth schedule",
    trigger="a schedule [[1,4,2],[5,512,0]] and more than 4 concurrent requests",
    published="GB10, 8 x 180 tokens: fixed K=2 232 tok/s in 6.3 s; schedule 24-157 tok/s in 40-60 s",
    penalties=("piecewise_downgrade", "zero_depth_sync"),
    suite="threshold-collapse",
    subject="schedule",
    assess=assess,
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
