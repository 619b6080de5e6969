"""Ten thousand streams at once: every one is recorded."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.contract import Endpoint
from loadgen.cell import drive_cell
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.traffic import TrafficMix
from suites.model import LoadSpec, TrafficClass

ROOT = Path(__file__).parents[2]
STREAMS = 10_000
SPARE = 500  # files that are open anyway


@contextmanager
def open_files(needed: int) -> Iterator[None]:
    """As many as that may be open here; skips where that is not permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"needs {needed} open files, {hard} are permitted (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def server(streams: int) -> Iterator[subprocess.Popen[str]]:
    """In a process of its own: each side has as many files open."""
    command = [sys.executable, "-m", "tests.loadgen.many_streams", str(streams)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, bufsize=1
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.http
@pytest.mark.slow
def test_ten_thousand_streams_at_once_are_all_recorded() -> None:
    records: list[RequestRecord] = []
    key = CellKey("off", STREAMS, 0)
    load = LoadSpec((STREAMS,), mode="burst", requests_per_stream=1, timeout_s=240.0)
    prompts = TrafficMix([TrafficClass("chat", max_tokens=3)], 0).cell(key)
    with open_files(STREAMS + SPARE), server(STREAMS) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()

        async def run() -> CellRecord:
            endpoint = Endpoint(url, "m", "scripted", is_model=False)
            return await drive_cell(endpoint, key, load, prompts, on_record=records.append)

        cell = asyncio.run(run())
        at_once, _ = process.communicate(timeout=60)
    assert cell.requests == len(records) == STREAMS
    assert Counter((record.outcome, record.why) for record in records) == {(Outcome.DONE, None): STREAMS}
    assert at_once == f"{STREAMS}\n"
    assert {record.output_tokens for record in records} == {3}
    assert len({record.request for record in records}) == STREAMS
    sent_s = max(record.sent_s or 0.0 for record in records)  # a first chunk may be read with its end
    assert all((record.done_s or 0.0) >= sent_s > 0.0 for record in records)
