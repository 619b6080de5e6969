"""llama.cpp#27117: acceptance itself falls with the number of requests, and a shallow K recovers it.

The bars below were declared before the first run. Acceptance is compared with itself at another
concurrency, so no clock and no baseline enters. The report gives words (clean at 4 sequences, degraded at
8, collapsed at 16, with blocks of 16; 16 sequences with blocks of 8 still bad, with K=1 well), no numbers:
the switch batch_knee_tokens reads them as a bound on the tokens of a step, which all five fit, and
batch_slope is assumed. The reporter suspects state a sequence instead; what is shown here is that such a
fall is seen and told from the economic crossover, not its cause.
"""

from __future__ import annotations

import sys
from typing import Final

from loadgen.records import CellKey
from reports.judgement import Interval, Judgement
from reports.pooled import RepeatFigures, Throughputs, repeat_figures
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_options
from reproducers.contract import Control, Expected, Reproducer
from reproducers.findings import above, below
from reproducers.script import run_script
from reproducers.summary import summary

SUBJECT: Final = "fixed_7"
SHALLOW: Final = "fixed_1"
CLEAN, DEGRADED, COLLAPSED = 4, 8, 16
FALLEN: Final = 0.9  # accepted drafts a verification at 8 / at 4
GONE: Final = 0.5  # ... at 16 / at 4
KEPT: Final = 0.8  # ... at 16 / at 4 with K=1


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: deep drafts fail at 16 requests that pass at 4, and drafts at K=1 do not."""
    gone = between(judgement, SUBJECT, COLLAPSED, CLEAN)
    what = "accepted drafts a verification"
    findings = (
        below(f"K=7: {what} at c={COLLAPSED} / at c={CLEAN}", gone, GONE),
        below(
            f"K=7: {what} at c={DEGRADED} / at c={CLEAN}",
            between(judgement, SUBJECT, DEGRADED, CLEAN),
            FALLEN,
        ),
        above(
            f"K=1: {what} at c={COLLAPSED} / at c={CLEAN}",
            between(judgement, SHALLOW, COLLAPSED, CLEAN),
            KEPT,
        ),
        above(
            f"tokens/s of K=1 over K=7 at c={COLLAPSED}",
            throughputs.ratio(SHALLOW, SUBJECT, (COLLAPSED,)),
            1.0,
        ),
    )
    return summary(REPRODUCER, judgement, findings, gone, f"{what} at K=7, c={COLLAPSED} over c={CLEAN}")


def between(judgement: Judgement, arm: str, high: int, low: int) -> Interval | None:
    """Accepted drafts a verification of one arm at one concurrency over another, by the engine's counters."""
    length = repeat_figures(judgement, "acceptance_length")
    side = {high: "high", low: "low"}
    values = {
        CellKey(side[key.concurrency], 0, key.repeat): value - 1.0
        for key, value in length.values.items()
        if key.arm == arm and key.concurrency in side
    }
    return RepeatFigures(values, length.confidence).ratio("high", "low", (0,))


REPRODUCER = Reproducer(
    name="batch-dependent-acceptance",
    report="llama.cpp#27117",
    symptom="drafts that pass with few requests fail with many",
    trigger="a block drafter whose blocks of many sequences share one forward",
    published="DFlash: clean at 4 sequences, degraded at 8, collapsed at 16; K=1 recovers",
    published_figure=None,
    penalties=("batch_slope", "batch_knee_tokens"),
    suite="batch-dependent-acceptance",
    subject=SUBJECT,
    assess=assess,
    control=Control("acceptance does not feel the batch", with_options(acceptance=None)),
    expected=Expected(0.08, 0.3),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
