"""How a cell's streams are shared out among worker processes of this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass

from loadgen.rules import driver_of
from suites.model import LoadSpec

STREAMS_A_WORKER = 512  # one process reads some 50,000 chunks/s with ease: 512 streams of 100 tokens/s


@dataclass(frozen=True, slots=True)
class Share:
    """Streams `index`, `index + of`, `index + 2 of`, ... of a cell; (0, 1) is all of them."""

    index: int = 0
    of: int = 1

    def streams(self, concurrency: int) -> range:
        """Their numbers."""
        return range(self.index, concurrency, self.of)


ALL = Share()


def divisible(load: LoadSpec) -> bool:
    """Whether processes that do not hear of each other can drive it: plain closed loops."""
    return driver_of(load) == "closed"


def workers_of(load: LoadSpec, concurrency: int, cores: int | None = None) -> int:
    """Processes that drive the cell: what the load says, else as many as its streams need and cores allow.

    A core is left to whatever else runs here. Loads that cannot be shared out have one process.
    """
    if not divisible(load):
        return 1
    if load.workers is not None:
        return min(load.workers, concurrency)
    cores = cores or _cores()
    return max(1, min(cores - 1, -(-concurrency // STREAMS_A_WORKER)))


def _cores() -> int:
    """That this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
