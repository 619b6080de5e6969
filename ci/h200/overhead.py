"""What telemetry costs: the same bursts with it off and on, in the order 0 1 1 0 1 0, on one server."""

from __future__ import annotations

from collections.abc import Callable

from ci.h200.arms import PLANS
from ci.h200.cells import Bench

ORDER = (0, 1, 1, 0, 1, 0)
DEPTHS = {8: (0,), 64: (0, 2), 256: (0,)}  # at K=0 every burst has the same number of steps


async def measure_overhead(bench: Bench, server: str, passes: int, late: Callable[[], bool]) -> None:
    """Cells telemetryON_kK@SERVER of plan `overhead`; `repeat` counts places in the order.

    Begins no pass once it is `late`.
    """
    plan = PLANS["overhead"]
    for number in range(passes * len(ORDER)):
        if number % len(ORDER) == 0 and late():
            return
        on = ORDER[number % len(ORDER)]
        for concurrency in plan.concurrency:
            for depth in DEPTHS[concurrency]:
                await bench.cell("overhead", plan, f"telemetry{on}_k{depth}@{server}", concurrency, number)
