"""Is the load generator itself keeping up? How late its event loop wakes, and when that spoils a cell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import numpy as np

from loadgen.reads import Clock

PROBE_S = 0.02
LATE_S = 0.02  # wakes this late at the 95th percentile: latencies are no longer the server's
STALL_SHARE = 0.05  # a stall of more than this share of the cell: its throughput is no longer the server's
ADVICE = "spread the load over more worker processes (or more machines), or lower the concurrency"


class LoopLag:
    """Probes an event loop. `worst_s` is None before the first probe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._late_s: list[float] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Probes while the block runs."""
        probe = asyncio.create_task(self._probe())
        try:
            yield
        finally:
            probe.cancel()
            with suppress(asyncio.CancelledError):
                await probe

    @property
    def worst_s(self) -> float | None:
        return max(self._late_s, default=None)

    def faults(self, cell_s: float) -> tuple[str, ...]:
        """Reasons why a cell of this length cannot be trusted; empty = the client kept up."""
        return client_faults(self._late_s, cell_s)

    async def _probe(self) -> None:
        while True:
            due_s = self._clock() + PROBE_S
            await asyncio.sleep(PROBE_S)
            self._late_s.append(max(0.0, self._clock() - due_s))


def client_faults(late_s: list[float], cell_s: float) -> tuple[str, ...]:
    """As LoopLag.faults, of probes in seconds."""
    if not late_s:
        return ()
    p95_s, worst_s = float(np.percentile(late_s, 95)), max(late_s)
    if p95_s > LATE_S:
        return (
            f"the load generator was saturated: its loop woke {p95_s * 1e3:.0f} ms late at p95; {ADVICE}",
        )
    if worst_s > max(LATE_S, STALL_SHARE * cell_s):
        return (f"the load generator stalled for {worst_s:.2f} s of {cell_s:.2f} s; is the machine shared?",)
    return ()
