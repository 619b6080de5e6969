"""A cell, or a share of one, driven by this process: made ready, begun with all others, and watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from loadgen.burst import BurstDriver
from loadgen.closed import ClosedDriver
from loadgen.lag import LoopLag
from loadgen.paced import Driven, PacedDriver
from loadgen.rules import PACED, driver_of
from loadgen.stream import RunningCell


class Driver(Protocol):
    """Of one cell. `ready`, then `run` from the time on at which the cell begins."""

    async def ready(self) -> None: ...

    async def run(self, start_s: float) -> Driven: ...


DRIVERS: dict[str, Callable[[RunningCell], Driver]] = {
    "burst": BurstDriver,
    "closed": ClosedDriver,
    PACED: PacedDriver,
}


async def drive_here(cell: RunningCell) -> tuple[Driven, LoopLag]:
    """To its end, and how this process kept up. Raises CancelledError once all records are written."""
    load, lag = cell.load, LoopLag(cell.clock)
    driver = DRIVERS[driver_of(load)](cell)
    connections = load.most_in_flight(cell.key.concurrency) or cell.key.concurrency
    await cell.client.connect(max(1, cell.share.places(connections)))
    await driver.ready()
    start_s = await cell.lockstep.start()
    async with cell.scribe.writing(), lag.watching():
        how = await driver.run(start_s)
    if load.max_in_flight is None:  # else requests wait here because the load says so
        lag.send_delays_s = cell.scribe.send_delays_s
    lag.reads = cell.client.lag
    return how, lag
