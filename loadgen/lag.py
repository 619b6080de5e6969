"""Is the load generator itself keeping up? Its loop, its core and its sends, and when that spoils a cell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import numpy as np

from loadgen.reads import Clock

PROBE_S = 0.02
LATE_S = 0.02  # wakes this late at the 95th percentile: latencies are no longer the server's
SENT_LATE_S = 0.05  # requests that leave this long after they were due, likewise
STALL_SHARE = 0.05  # a stall of more than this share of the cell: its throughput is no longer the server's
LATE_SHARE = 0.05  # of reads that were taken LATE_S late: more are a fault,
SAID_SHARE = 0.002  # more than this are noted
BUSY_SHARE = 0.95  # of its core: what it did not do, nobody knows
BUSY_OF_S = 1.0  # cells shorter than this say nothing about the core
SATURATED = "the load generator was saturated"
ADVICE = (
    "spread the load over more worker processes (--workers), over machines with locust, "
    "or lower the concurrency"
)


class LoopLag:
    """Probes an event loop. `worst_s` is None before the first probe. `cpu_s`: of its thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.late_s: list[float] = []
        self.send_delays_s: Sequence[float] = ()
        self.reads = ReadLag()
        self.cpu_s = 0.0
        self.wall_s = 0.0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Probes while the block runs."""
        cpu_s, wall_s = time.thread_time(), time.monotonic()
        probe = asyncio.create_task(self._probe())
        try:
            yield
        finally:
            self.cpu_s, self.wall_s = time.thread_time() - cpu_s, time.monotonic() - wall_s
            probe.cancel()
            with suppress(asyncio.CancelledError):
                await probe

    @property
    def worst_s(self) -> float | None:
        return max(self.late_s, default=None)

    def faults(self, cell_s: float) -> tuple[str, ...]:
        """Reasons why a cell of this length cannot be trusted; empty = the client kept up."""
        return (
            *client_faults(self.late_s, cell_s),
            *core_faults(self.cpu_s, self.wall_s),
            *send_faults(self.send_delays_s),
            *self.reads.faults(),
        )

    def notes(self) -> tuple[str, ...]:
        """What came while the loop was held up may have the stamp of what came last."""
        worst_s = self.worst_s or 0.0
        held_up = (
            f"the load generator's loop woke {worst_s * 1e3:.0f} ms late at worst: what came then "
            "may have later stamps, in the tails of TTFT and ITL"
        )
        return (*((held_up,) if worst_s > LATE_S else ()), *self.reads.notes())

    async def _probe(self) -> None:
        while True:
            due_s = self._clock() + PROBE_S
            await asyncio.sleep(PROBE_S)
            self.late_s.append(max(0.0, self._clock() - due_s))


def client_faults(late_s: Sequence[float], cell_s: float) -> tuple[str, ...]:
    """As LoopLag.faults, of probes in seconds."""
    if not late_s:
        return ()
    p95_s, worst_s = float(np.percentile(late_s, 95)), max(late_s)
    if p95_s > LATE_S:
        return (f"{SATURATED}: its loop woke {p95_s * 1e3:.0f} ms late at p95; {ADVICE}",)
    if worst_s > max(LATE_S, STALL_SHARE * cell_s):
        if cell_s < BUSY_OF_S:  # a few probes: held up or flat out, nobody can tell
            return (f"{SATURATED} for {worst_s * 1e3:.0f} ms of {cell_s * 1e3:.0f} ms; {ADVICE}",)
        return (f"the load generator stalled for {worst_s:.2f} s of {cell_s:.2f} s; is the machine shared?",)
    return ()


def core_faults(cpu_s: float, wall_s: float) -> tuple[str, ...]:
    """A loop that had no time left: CPU seconds of its thread over `wall_s`."""
    if wall_s < BUSY_OF_S or cpu_s <= BUSY_SHARE * wall_s:
        return ()
    return (f"{SATURATED}: it used {cpu_s / wall_s:.0%} of a core; {ADVICE}",)


def send_faults(delays_s: Sequence[float]) -> tuple[str, ...]:
    """Of seconds from when each request was due until the client turned to it."""
    late_s = float(np.percentile(delays_s, 95)) if len(delays_s) else 0.0
    if late_s <= SENT_LATE_S:
        return ()
    return (f"{SATURATED}: requests left {late_s * 1e3:.0f} ms after they were due at p95; {ADVICE}",)


@dataclass(frozen=True, slots=True)
class ReadLag:
    """Reads that the kernel stamped, and how many of them were taken more than LATE_S after they had come."""

    reads: int = 0
    late: int = 0

    def notes(self) -> tuple[str, ...]:
        """A read that is taken late holds several packets and has the last one's stamp."""
        if self.late <= SAID_SHARE * self.reads:
            return ()
        return (
            f"the load generator took {self.late / self.reads:.1%} of reads more than {LATE_S * 1e3:.0f} ms "
            "after they had come: at least so much of the tails of TTFT and ITL is its own",
        )

    def faults(self) -> tuple[str, ...]:
        """More of them than a p95 bears."""
        if self.late <= LATE_SHARE * self.reads:
            return ()
        share = f"{self.late / self.reads:.0%} of reads were taken more than {LATE_S * 1e3:.0f} ms late"
        return (f"{SATURATED}: {share}; {ADVICE}",)


def client_saturated(fault: str) -> bool:
    """Whether a cell's fault is that the client was flat out."""
    return fault.startswith(SATURATED)
