"""A burst of prompts is counted into the batch, crosses a schedule's threshold, and the streams lose their K.

From the list of cases (vllm#48944's schedules count every request of a step): 8 requests decode, 12 prompts
arrive at once, the threshold is 16. The decoding batch never grows: the prompts ask for one token each. vLLM
counts 20 in the step that prefills them, so nothing is drafted in it and the step after verifies nothing.
The bars below were declared before the first run. One lost step a burst is small; bursts ten times a second
make it a fifth of all steps, as at a prefill-heavy server. 20 switches in 1,000 is other suites' budget.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Judgement
from reports.pooled import Throughputs, repeat_figures
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_arm
from reproducers.contract import Control, Expected, Reproducer
from reproducers.findings import State, above, below, granted
from reproducers.needs import step_records
from reproducers.script import run_script
from reproducers.summary import summary

SUBJECT: Final = "schedule"
BY_DECODES: Final = "by_decodes"  # the same schedule, which counts decoding requests alone
SCHEDULE: Final = [[1, 16, 4], [17, 512, 0]]
SWITCHES: Final = 20.0  # of K, per 1,000 steps
EVERY_S: Final = 0.1  # of the suite's bursts; prompts that pile up are counted in every step, whoever counts
BAR: Final = 0.97  # tokens/s of the decoding streams, counted with prompts / without


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: K moves with the prompts although the decoding batch stands still, and it costs."""
    concurrencies = sorted({cell.concurrency for cell in judgement.cells})
    switches = repeat_figures(judgement, "switches_per_1k_steps", throughputs.confidence)
    loss = throughputs.ratio(SUBJECT, BY_DECODES, concurrencies)
    waited_s = repeat_figures(judgement, "ttft_p50_s", throughputs.confidence)
    served = granted(
        below(
            "a burst is served before the next one comes: median TTFT in seconds",
            waited_s.mean(BY_DECODES, concurrencies),
            EVERY_S,
        )
    )
    findings = (
        above("prompts counted: switches per 1,000 steps", switches.mean(SUBJECT, concurrencies), SWITCHES),
        below(
            "decoding requests counted: switches per 1,000 steps",
            switches.mean(BY_DECODES, concurrencies),
            SWITCHES,
        ),
        below("tokens/s with prompts counted / decoding requests alone", loss, BAR),
    )
    return summary(
        REPRODUCER,
        judgement,
        (*(findings if served.state is State.MET else map(granted, findings)), served),
        loss,
        "tokens/s of the schedule over the same one counting decoding requests alone",
    )


REPRODUCER = Reproducer(
    name="prefill-burst",
    report="vllm#48944",
    symptom="a burst of prompts turns speculation off for streams that decode as before",
    trigger="8 requests decode, 12 prompts arrive at once, and the schedule's threshold is 16",
    published="a case without figures: 8 decoding + 12 prefilling = 20 > 16",
    published_figure=None,
    penalties=(),
    suite="prefill-burst",
    subject=SUBJECT,
    assess=assess,
    control=Control(
        "the schedule counts decoding requests alone",
        with_arm(SUBJECT, "schedule", schedule=SCHEDULE, count="decodes"),
    ),
    # Step times of the profile: in 100 ms one step of 38 ms prefills, 3.9 of 15.9 ms verify K=4 (3.2 tokens a
    # request); losing one of them for a step of 12.3 ms leaves 113 of 125 tokens.
    expected=Expected(0.85, 0.95),
    needs=(step_records,),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
