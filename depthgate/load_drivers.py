"""What sends a run's requests: this process, or locust's processes, here or on several machines."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from engines.contract import Endpoint
from loadgen.cell import drive_cell
from loadgen.reads import Clock
from loadgen.records import CellKey, CellRecord, RequestRecord
from loadgen.swarm.cell import SwarmCells, check_load
from loadgen.swarm.fleet import FleetSettings, check_fleet, open_fleet
from loadgen.traffic import TrafficMix
from suites.model import Suite

OWN = "asyncio"


class CellDriver(Protocol):
    """Drives one cell; the contract of loadgen.cell.drive_cell."""

    async def __call__(
        self,
        endpoint: Endpoint,
        key: CellKey,
        *,
        on_record: Callable[[RequestRecord], None],
        on_progress: Callable[[], None],
        clock: Clock,
    ) -> CellRecord: ...


@dataclass(frozen=True, slots=True)
class LoadChoice:
    """`kind`: a name of LOAD_DRIVERS; `fleet`: for locust."""

    kind: str = OWN
    fleet: FleetSettings = field(default_factory=FleetSettings)

    def to_json(self) -> dict[str, object]:
        """For the manifest."""
        return {"kind": self.kind} | ({} if self.kind == OWN else asdict(self.fleet))

    @classmethod
    def of(cls, noted: object) -> Self:
        """Out of a manifest; this process for one that says nothing."""
        if not isinstance(noted, Mapping) or noted.get("kind") not in LOAD_DRIVERS:
            return cls()
        known = {item.name for item in fields(FleetSettings)}
        return cls(str(noted["kind"]), FleetSettings(**{name: noted[name] for name in known & noted.keys()}))

    def check(self, suite: Suite) -> None:
        """Raises SwarmError when this cannot drive the suite's load, or not from here."""
        if self.kind != OWN:
            check_load(suite.load)
            check_fleet(self.fleet)


OWN_LOAD = LoadChoice()


@dataclass(frozen=True, slots=True)
class LoadContext:
    """What a driver is opened with, once a run."""

    suite: Suite
    mix: TrafficMix
    run_dir: Path


def open_load(choice: LoadChoice, context: LoadContext) -> AbstractAsyncContextManager[CellDriver]:
    """`async with open_load(...) as drive:` for a whole run."""
    return LOAD_DRIVERS[choice.kind](choice, context)


def _say(sentence: str) -> None:
    print(f"depthgate: {sentence}", file=sys.stderr)


@asynccontextmanager
async def _own(choice: LoadChoice, context: LoadContext) -> AsyncIterator[CellDriver]:
    async def drive(
        endpoint: Endpoint,
        key: CellKey,
        *,
        on_record: Callable[[RequestRecord], None],
        on_progress: Callable[[], None],
        clock: Clock,
    ) -> CellRecord:
        send = partial(drive_cell, on_record=on_record, on_progress=on_progress, clock=clock)
        return await send(endpoint, key, context.suite.load, context.mix.cell(key))

    yield drive


@asynccontextmanager
async def _locust(choice: LoadChoice, context: LoadContext) -> AsyncIterator[CellDriver]:
    async with open_fleet(choice.fleet, context.run_dir, _say) as link:
        yield SwarmCells(link, context.suite).drive


LOAD_DRIVERS: dict[str, Callable[[LoadChoice, LoadContext], AbstractAsyncContextManager[CellDriver]]] = {
    OWN: _own,
    "locust": _locust,
}
