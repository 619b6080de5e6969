"""vllm#54933, vllm#49390: the last requests of a full batch exceed the largest captured graph and run eager.

The bars below were declared before the first run. The reports lose a factor of five to seven; half is far
from anything that one draft more (K=6 against K=5) or one request more (6 against 5) could cost.

vllm#49390 is slow at 64 requests already, whose 64 x 8 tokens are 512 and fit: by arithmetic the cliff is one
request later. Its figures here are those of 128 and 256 requests.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Judgement
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_penalties
from reproducers.configuration import ConfigFinding, EngineConfig, capturable, largest_captured
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.findings import below
from reproducers.needs import beyond_graphs, graphs
from reproducers.script import run_script
from reproducers.summary import summary

BAR: Final = 0.5  # both ratios
SUBJECT: Final = "deep"


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: with the batch full the deep arm falls off, against one draft less and against itself
    before the batch was full. `deep` is one draft deeper than `shallow`, which still fits."""
    widths = sorted({cell.concurrency for cell in judgement.cells})
    full, before = widths[-1:], widths[:-1][-1:]
    cliff = throughputs.ratio_of_ratios(SUBJECT, "off", full, before)
    findings = (
        below(f"deep / no speculation at c={_shown(full)} over the same at c={_shown(before)}", cliff, BAR),
        below(f"deep / one draft less at c={_shown(full)}", throughputs.ratio(SUBJECT, "shallow", full), BAR),
    )
    return summary(
        REPRODUCER,
        judgement,
        findings,
        cliff,
        f"tokens/s of deep over no speculation, c={_shown(full)} against c={_shown(before)}",
    )


def check(config: EngineConfig) -> tuple[ConfigFinding, ...]:
    """Every K at which a full batch has more tokens than the largest captured size."""
    largest = largest_captured(config)
    if largest is None:
        return ()
    asked = config.capture_limit
    cut = f" ({asked} asked, cut down to {largest})" if asked is not None and asked > largest else ""
    return tuple(
        ConfigFinding(
            f"K={depth} with {largest} captured tokens{cut}: at most {largest // (depth + 1)} of "
            f"max_num_seqs={config.max_num_seqs} requests run in a graph",
            f"raise max_cudagraph_capture_size to {capturable(config.max_num_seqs * (depth + 1))}"
            + (f", or lower max_num_seqs to {largest // (depth + 1)}" if largest > depth else ""),
        )
        for depth in config.depths
        if config.max_num_seqs * (depth + 1) > largest
    )


def _shown(widths: list[int]) -> str:
    return ", ".join(map(str, widths)) or "?"


REPRODUCER = Reproducer(
    name="capture-ceiling",
    report="vllm#54933",
    symptom="throughput falls off a cliff when the last request of a full batch leaves the captured sizes",
    trigger="6 requests at K=6 are 42 tokens; max_cudagraph_capture_size=42 is silently cut down to 40",
    published="25.3 against 133.3 tok/s, TTFT 26.0 against 0.84 s; vllm#49390, K=7, 512 against 1,024 "
    "captured: c64 1,127 against 7,559 tok/s, c128 904 against 5,101, c256 977 against 4,812",
    published_figure=Published(
        904 / 5101, 977 / 4812, "904 over 5,101, 25.3 over 133.3, 977 over 4,812 tok/s"
    ),
    penalties=("capture_sizes",),
    suite="capture-ceiling",
    subject=SUBJECT,
    assess=assess,
    control=Control(
        "48 tokens are captured too, so that 42 fit",
        with_penalties(capture_sizes=[1, 2, 4, 8, 16, 24, 32, 40, 48]),
    ),
    expected=Expected(0.15, 0.30),  # uncaptured steps of an H200 take 45-55 ms, K=6 under FULL some 9-11 ms
    config_check=check,
    needs=(graphs, beyond_graphs),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
