"""TensorRT-LLM#16888, vllm#53426: after steps at K=0 an EAGLE drafter drafts from a state with a gap.

The bars below were declared before the first run. Every draft of the subject comes right after three steps
at K=0 (K trace 3, 0, 0, 0, 3), so its acceptance is that of resumed drafts alone and counters suffice;
step records, where kept, say the same step by step (reports/starvation.py). The size of the fall is sized
to the report (switch drafter_starvation: 0.05 of 0.7), so that our figure agrees with it is no test; that
a pause is told from none is. MTP and DFlash tolerate the pause and come out not-reproduced, as does an
engine that runs the drafter's forward at K=0 (vLLM does). The embedded engine mends a gap as the request
is re-fed; TensorRT-LLM's lasts as long as the request.
"""

from __future__ import annotations

import sys
from typing import Final

from loadgen.records import CellKey
from reports.judgement import Interval, Judgement
from reports.pooled import RepeatFigures, Throughputs, repeat_figures
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_penalties
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.findings import NEEDS, above, below, granted
from reproducers.script import run_script
from reproducers.summary import summary

SUBJECT: Final = "pulse"
STEADY: Final = "fixed_3"
STARVED: Final = 0.5  # accepted drafts a verification, after K=0 / at fixed K=3
WORTH: Final = 0.5  # accepted drafts a verification at fixed K=3: fewer cannot fall far enough to see


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: drafts that follow steps at K=0 pass far less often than the same drafter's steady ones."""
    concurrencies = sorted({cell.concurrency for cell in judgement.cells})
    accepted = accepted_drafts(judgement)
    fall = accepted.ratio(SUBJECT, STEADY, concurrencies)
    findings = (
        below("accepted drafts a verification, right after K=0 / at fixed K=3", fall, STARVED),
        granted(
            above("fixed K=3: accepted drafts a verification", accepted.mean(STEADY, concurrencies), WORTH)
        ),
    )
    return summary(
        REPRODUCER,
        judgement,
        findings,
        fall,
        "accepted drafts a verification right after K=0 over those at fixed K=3",
        (detected(judgement, concurrencies),),
    )


def accepted_drafts(judgement: Judgement) -> RepeatFigures:
    """Acceptance length less the target's own token, by the engine's counters."""
    length = repeat_figures(judgement, "acceptance_length")
    return RepeatFigures({key: value - 1.0 for key, value in length.values.items()}, length.confidence)


def detected(judgement: Judgement, concurrencies: list[int]) -> str:
    """The detector's word, from step records: resumed drafts of the subject against the steady arm's."""
    resumed = repeat_figures(judgement, "acceptance_resumed")
    settled = repeat_figures(judgement, "acceptance_settled")
    values = {
        **{key: value for key, value in resumed.values.items() if key.arm == SUBJECT},
        **{key: value for key, value in settled.values.items() if key.arm == STEADY},
    }
    ratio = RepeatFigures(values, resumed.confidence).ratio(SUBJECT, STEADY, concurrencies)
    if ratio is None:
        return f"detector, state starvation after K=0: {NEEDS if values else 'no step records'}"
    first, others = _mean(values, SUBJECT), _mean(values, STEADY)
    shares = f"{first:.2f} of the first drafts after K=0 pass, {others:.2f} of others"
    bounds = f"ratio {ratio.point:.2f}, {ratio.low:.2f} to {ratio.high:.2f}"
    return f"detector, state starvation after K=0: {_word(ratio)}: {shares} ({bounds})"


def _word(ratio: Interval) -> str:
    return "starved" if ratio.high < STARVED else "not starved" if ratio.low >= STARVED else "not decided"


def _mean(values: dict[CellKey, float], arm: str) -> float:
    found = [value for key, value in values.items() if key.arm == arm]
    return sum(found) / len(found)


REPRODUCER = Reproducer(
    name="drafter-starvation",
    report="TensorRT-LLM#16888",
    symptom="after steps at K=0 nearly no draft is accepted any more",
    trigger="an EAGLE drafter whose forward is skipped at K=0, and a K that comes back",
    published="acceptance 0.7 -> 0.05 after K = 3, 0, 0, 0, 3 (EAGLE; MTP and DFlash tolerate it)",
    published_figure=Published(0.05 / 0.7, 0.05 / 0.7, "acceptance 0.05 over 0.7"),
    penalties=("drafter_starvation", "zero_depth_sync"),
    suite="drafter-starvation",
    subject=SUBJECT,
    assess=assess,
    control=Control("the drafter's forward runs at K=0 too", with_penalties(zero_depth_sync=True)),
    expected=Expected(0.04, 0.11),  # the switch is sized to 0.07
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
