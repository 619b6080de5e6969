"""What master and workers say to each other over locust's own messages, and what a cell's order holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from loadgen.records import CellKey
from loadgen.traffic import CellPrompts, TrafficMix
from suites.model import Suite
from suites.parse import parse_suite

# Master -> worker.
PING = "depthgate_ping"
ORDER = "depthgate_order"  # get ready for a cell
GO = "depthgate_go"  # which streams are yours, and when they start
RELEASE = "depthgate_release"  # when the next burst leaves
CANCEL = "depthgate_cancel"
STREAM = "depthgate_stream"  # the stream of a user of a plain `locust -f`
# Worker -> master.
PONG = "depthgate_pong"
READY = "depthgate_ready"
BURST = "depthgate_burst"  # all of this worker's streams have ended the burst
RECORDS = "depthgate_records"
DONE = "depthgate_done"
CLAIM = "depthgate_claim"

LINK_VARIABLE = "DEPTHGATE_LINK"  # path of the socket to depthgate, for the master alone
LOADS = ("closed", "burst")


@dataclass(frozen=True, slots=True)
class Order:
    """One cell. `suite` in the shape of its TOML file (suites.canonical.content). `number`: of the order."""

    number: int
    base_url: str
    model: str
    suite: Mapping[str, Any]
    key: CellKey

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Order:
        """Raises KeyError or TypeError when it is no order."""
        return cls(data["number"], data["base_url"], data["model"], data["suite"], CellKey(**data["key"]))

    def read_suite(self) -> Suite:
        """Raises SuiteError when this machine's depthgate reads suites otherwise than the master's."""
        return parse_suite(self.suite, "the master's order")


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """What a stream did, in the worker's clock: its first measured request, and the end of its last one."""

    stream: int
    begun_s: float | None
    ended_s: float


def mix_of(suite: Suite) -> TrafficMix:
    """Raises TrafficError when a source cannot be read on this machine."""
    return TrafficMix(suite.traffic, suite.seed)


def digest(prompts: CellPrompts) -> str:
    """Of the first requests of the first streams: machines that make others must not share a cell."""
    made = hashlib.sha256()
    for index in range(4):
        stream = prompts.stream(index)
        for _ in range(2):
            made.update(repr(next(stream)).encode())
    return made.hexdigest()
