"""syv-ai#25: one stream runs at 39 tok/s and seven at two, where an even share is four to six for each.

The mean of the streams says that all is well (7.3 against about 5), so nothing here is judged by it: Jain's
index of the streams' own speeds (0.27 as reported, 1 when all are alike), and the slowest stream's time per
output token. The mechanism is ours: the report does not say. A step verifies so many drafts and no more, and
the oldest request takes its whole window first; seven streams decode one token a step, which is how alike the
slow ones in the report are (1.7 to 2.4). The even share is K=1 on the same engine: eight drafts for eight.
The bars below were declared before the first run.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Judgement
from reports.pooled import Throughputs, repeat_figures
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_penalties
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.findings import above, below, within
from reproducers.needs import scarce_steps
from reproducers.script import run_script
from reproducers.summary import summary

SUBJECT: Final = "greedy"
EVEN: Final = "even"
UNFAIR: Final = 0.7  # Jain's index: below it streams are starved
FAIR: Final = 0.9  # ... above it they are not
SLOWEST: Final = 1.5  # p99 of the streams' time per token, greedy / even; reported: 1.7 against 3.8 tok/s
SAME: Final = 0.75  # tokens/s of the two, and its inverse


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: streams are starved and wait, at a throughput that shows no such thing."""
    widths = sorted({cell.concurrency for cell in judgement.cells})
    fairness = repeat_figures(judgement, "jain_index", throughputs.confidence)
    pace = repeat_figures(judgement, "tpot_p99_s", throughputs.confidence)
    jain = fairness.mean(SUBJECT, widths)
    findings = (
        below("K=7, drafts to the oldest: Jain's index of the streams", jain, UNFAIR),
        above("K=1, drafts shared evenly: Jain's index", fairness.mean(EVEN, widths), FAIR),
        above("time per token of the slowest stream, K=7 / K=1", pace.ratio(SUBJECT, EVEN, widths), SLOWEST),
        within("tokens/s, K=7 / K=1", throughputs.ratio(SUBJECT, EVEN, widths), SAME, 1 / SAME),
    )
    return summary(REPRODUCER, judgement, findings, jain, "Jain's index of the streams' speeds, no ratio")


REPRODUCER = Reproducer(
    name="starved-streams",
    report="syv-ai#25",
    symptom="one stream takes all the speed and the others starve, at the same mean",
    trigger="8 streams whose drafts together exceed what a step verifies, served first come first served",
    published="8 streams at 1.8, 39.4, 2.4, 6.1, 1.7, 2.2, 1.8, 3.3 tok/s; evenly 3.8 to 6.2",
    published_figure=Published(0.266, 0.266, "Jain's index of the eight speeds"),
    penalties=("draft_budget_tokens",),
    suite="starved-streams",
    subject=SUBJECT,
    assess=assess,
    control=Control("a step verifies every draft in hand", with_penalties(draft_budget_tokens=None)),
    # The oldest emits 6.7 tokens a step (.95 a draft, 7 drafts) and seven streams one: .45. The report's 22
    # tokens a step (39.4 / 1.8) need a longer block than the profile's.
    expected=Expected(0.35, 0.55),
    needs=(scarce_steps,),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
