"""When the load generator itself is to blame."""

from __future__ import annotations

import asyncio

from loadgen.lag import LoopLag, client_faults


def test_a_loop_that_keeps_up_has_no_faults() -> None:
    assert client_faults([], 1.0) == ()
    assert client_faults([0.001] * 100, 1.0) == ()
    assert client_faults([0.0] * 99 + [0.04], 1.0) == ()  # one stall of 4 % of the cell


def test_a_loop_that_is_always_late_was_saturated() -> None:
    (fault,) = client_faults([0.03] * 100, 10.0)
    assert fault.startswith(
        "the load generator was saturated: its loop woke 30 ms late at p95; spread the load"
    )


def test_one_long_stall_is_named() -> None:
    (fault,) = client_faults([0.0] * 99 + [0.5], 5.0)
    assert fault == "the load generator stalled for 0.50 s of 5.00 s; is the machine shared?"


def test_probes_measure_how_late_the_loop_woke() -> None:
    now_s = iter([0.0, 0.05, 1.0, 1.5, 2.0, 2.5])

    async def run() -> float | None:
        lag = LoopLag(lambda: next(now_s))
        async with lag.watching():
            await asyncio.sleep(0.03)  # one probe: slept from 0.0 to 0.05 by its clock, 0.02 was asked for
        return lag.worst_s

    worst_s = asyncio.run(run())
    assert worst_s is not None
    assert worst_s >= 0.03 - 1e-12
