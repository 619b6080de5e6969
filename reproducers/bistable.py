"""sglang#33483: one excursion above the captured batch, and the server never comes back.

A step without a graph takes four times as long, so requests pile up and the batch stays above the largest
graph. Whether a run falls is luck: it is judged by the share of runs that fell, with the exact
(Clopper-Pearson) interval, never by a mean, which is the speed of no run. A run has fallen when its median
ITL is more than FALLEN times that of the same engine under a light load, after a warm-up in which it had time
to fall. The bars below were declared before the first run: reported are 3.0 -> 12.6 ms, 4.2 times; a batch
of 24 in place of 1 makes a healthy step 1.2 times as long.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Final

from loadgen.records import CellKey
from reports.interval import share_interval
from reports.judgement import Judgement
from reports.pooled import Throughputs, repeat_figures
from reports.reproduction import ReproductionSummary
from reproducers.changes import together, with_penalties
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.findings import Finding, State, above
from reproducers.needs import beyond_graphs, graphs
from reproducers.script import run_script
from reproducers.summary import summary

SUBJECT: Final = "off"
FALLEN: Final = 2.5  # median ITL under the load / under the light one, of one run
BAR: Final = 0.5  # of runs
CONTROL_RUNS: Final = 9


def slowdowns(judgement: Judgement) -> tuple[float, ...]:
    """Of each whole run: median ITL at the highest rate over that at the lowest."""
    grid = sorted({cell.concurrency for cell in judgement.cells})
    itl_s = repeat_figures(judgement, "itl_p50_s").values
    pairs = (
        (itl_s.get(key), itl_s.get(CellKey(SUBJECT, grid[0], key.repeat)))
        for key in itl_s
        if (key.arm, key.concurrency) == (SUBJECT, grid[-1])
    )
    return tuple(sorted(loaded / light for loaded, light in pairs if loaded and light))


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: surely more than half of the runs fell. Not reproduced: surely fewer."""
    ratios = slowdowns(judgement)
    fallen = sum(ratio > FALLEN for ratio in ratios)
    share = share_interval(fallen, len(ratios), throughputs.confidence)
    findings = [above(f"share of runs fallen ({fallen} of {len(ratios)})", share, BAR)]
    if not on_own_engine(judgement):
        findings.append(carried(fallen, len(ratios)))
    shown = ", ".join(f"{ratio:.1f}" for ratio in ratios)
    return summary(
        REPRODUCER,
        judgement,
        findings,
        share,
        "share of runs whose median ITL fell for good, no ratio",
        (f"median ITL over that under a light load, run by run: {shown}",) if ratios else (),
    )


def carried(fallen: int, runs: int) -> Finding:
    """On a server that is not modelled here: a load beyond its speed slows every run down as well."""
    claim = "the server can carry this load: some run stayed fast"
    state = State.MET if fallen < runs else State.OPEN
    return Finding(state, claim, f"{runs - fallen} of {runs} did")


def on_own_engine(judgement: Judgement) -> bool:
    """Whether it ran on the embedded engine of its suite, whose control shows that it carries the load."""
    suite = judgement.manifest.get("suite")
    engine = suite.get("engine") if isinstance(suite, dict) else None
    return not isinstance(engine, dict) or engine.get("kind", "embedded") == "embedded"


REPRODUCER = Reproducer(
    name="bistable",
    report="sglang#33483",
    symptom="at one and the same load most runs fall to a quarter of their speed and never recover",
    trigger="a load whose batch comes near the largest captured one: one excursion above it is enough",
    published="graphs up to batch 32, 31 requests/s: ITL 3.0 -> 12.6 ms in 19 of 20 runs; up to 128: 0 of 9",
    published_figure=Published(0.95, 0.95, "19 of 20 runs"),
    penalties=("capture_sizes",),
    suite="bistable",
    subject=SUBJECT,
    assess=assess,
    control=Control(
        "every batch of the load runs in a graph (the profile's captured sizes, up to 512)",
        together(with_penalties(capture_sizes=None), lambda suite: replace(suite, repeats=CONTROL_RUNS)),
    ),
    expected=Expected(0.8, 1.0),
    needs=(graphs, beyond_graphs),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
