"""freetoken#173: captured widths 1, 2 and 4 without padding: three requests run eager, four are fine again.

The bars below were declared before the first run. The report's throughput falls to 0.42-0.64 of what it was,
its step from 139 to 830 ms; a quarter off on both sides is a hole and no curve. Powers of two never show it:
the suite's concurrency comes from `graph_edges`.
"""

from __future__ import annotations

import sys
from typing import Final

from reports.judgement import Judgement
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary
from reproducers.changes import with_penalties
from reproducers.configuration import ConfigFinding, EngineConfig, counted, in_no_graph
from reproducers.contract import Control, Expected, Published, Reproducer
from reproducers.hole import hole_depth, hole_findings
from reproducers.needs import graphs, unpadded
from reproducers.script import run_script
from reproducers.summary import summary

HOLE: Final = (3,)  # requests: between the captured widths 2 and 4
BAR: Final = 0.75  # K=3 / no speculation in the hole, over the same on either side of it
SUBJECT: Final = "fixed_3"


def assess(judgement: Judgement, throughputs: Throughputs) -> ReproductionSummary:
    """Reproduced: three requests are slower than two and than four would have it, at the same acceptance."""
    return summary(
        REPRODUCER,
        judgement,
        hole_findings(judgement, throughputs, SUBJECT, "off", HOLE, BAR),
        hole_depth(throughputs, SUBJECT, "off", HOLE, (2, 4)),
        "tokens/s of K=3 over no speculation, c=3 against c=2 and 4",
    )


def check(config: EngineConfig) -> tuple[ConfigFinding, ...]:
    """Widths below the largest captured size that fall between two sizes and are not padded."""
    sizes = config.capture_sizes
    if not sizes or config.padding:
        return ()
    found = []
    for depth in config.depths:
        holes = [width for width in in_no_graph(config, depth) if width * (depth + 1) <= sizes[-1]]
        if holes:
            tokens = ", ".join(str(width * (depth + 1)) for width in holes[:4])
            more = " ..." if len(holes) > 4 else ""
            found.append(
                ConfigFinding(
                    f"K={depth} without padding: {counted(holes)} ({tokens}{more} tokens) fall between "
                    "captured sizes and run eager",
                    f"turn padding on, or capture {tokens}{more} tokens too",
                )
            )
    return tuple(found)


REPRODUCER = Reproducer(
    name="capture-hole",
    report="freetoken#173",
    symptom="three requests are slower than two or four: their step falls between captured graphs",
    trigger="graphs captured for 1, 2 and 4 requests, no padding, and 3 requests",
    published="step 139 -> 830 ms; 22-26 -> 10.8-14 tok/s at 3 requests, 30-35 at 4; acceptance .499 in both",
    published_figure=Published(10.8 / 26, 14 / 22, "10.8-14 over 22-26 tok/s"),
    penalties=("capture_sizes", "capture_padding"),
    suite="capture-hole",
    subject=SUBJECT,
    assess=assess,
    control=Control("a batch between two sizes is padded to the next", with_penalties(capture_padding=True)),
    expected=Expected(
        0.10, 0.25
    ),  # eager over FULL, measured on an H200: .11 (.08-.15) of off at K=0; 7 of 45-55 ms
    config_check=check,
    needs=(graphs, unpadded),
)

if __name__ == "__main__":
    run_script(REPRODUCER.name, sys.argv[1:])
