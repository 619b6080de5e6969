"""A small suite, an embedded engine, and locust's processes for it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engines.contract import Endpoint, EngineRequest
from engines.embedded.launcher import EmbeddedEngine
from loadgen.records import CellKey, CellRecord, RequestRecord
from loadgen.swarm.cell import SwarmCells
from loadgen.swarm.fleet import Link
from suites.locate import find_suite
from suites.model import LoadSpec, Suite
from suites.parse import load_suite

KEY = CellKey("fixed_2", 6, 1)
REQUEST = EngineRequest("fixed_2", "fixed", {"depth": 2}, {"k_max": 2}, seed=8)
BURST = LoadSpec((6,), mode="burst", requests_per_stream=2, warmup_requests=1, timeout_s=60)
CLOSED = LoadSpec((6,), requests_per_stream=3, timeout_s=60)

Found = tuple[list[RequestRecord], CellRecord]


def engine(host: str = "127.0.0.1") -> EmbeddedEngine:
    return EmbeddedEngine("h100-llama3.1-8b-eagle", host=host)


def suite_of(load: LoadSpec, max_tokens: int = 24) -> Suite:
    """quickstart's traffic under another load."""
    suite = load_suite(find_suite("quickstart"))
    traffic = tuple(replace(item, max_tokens=max_tokens) for item in suite.traffic)
    return replace(suite, load=load, traffic=traffic)


async def cell_through(
    link: Link,
    endpoint: Endpoint,
    suite: Suite,
    key: CellKey = KEY,
    on_record: Callable[[RequestRecord], None] = lambda record: None,
) -> Found:
    """One cell, its records in the order in which they were shipped."""
    records: list[RequestRecord] = []

    def keep(record: RequestRecord) -> None:
        records.append(record)
        on_record(record)

    cells = SwarmCells(link, suite)
    cell = await cells.drive(endpoint, key, on_record=keep, on_progress=lambda: None, clock=time.monotonic)
    return records, cell


async def seen(what: Callable[[], bool]) -> None:
    """Waits until it is so."""
    async with asyncio.timeout(60):
        while not what():  # noqa: ASYNC110 (files and processes are waited for, no event)
            await asyncio.sleep(0.05)


def children(words: str) -> list[int]:
    """Processes that descend from this one and have `words` on their command line, guards left out."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            args = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if words in args and "process_guard" not in args and _descends(int(entry.name), os.getpid()):
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def command_lines(words: str) -> bytes:
    """Of `children`, as anyone on the machine may read them."""
    return b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(words))


def lost_streams(loss: str) -> int:
    """How many streams a cell's fault names: `with stream 5 was lost`, `with streams 2-3 was lost`."""
    named = loss.split("with stream")[1].split(" was lost")[0].strip("s ")
    first, _, last = named.partition("-")
    return int(last or first) - int(first) + 1


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if pid == ancestor:
            return True
    return False


def by_request(records: list[RequestRecord]) -> dict[str, tuple[object, ...]]:
    return {r.request: (r.traffic_class, r.prompt_tokens, r.output_tokens, r.max_tokens) for r in records}
