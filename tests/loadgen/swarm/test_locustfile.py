"""Plain locust with the locustfile: alone, and as a master with two workers."""

from __future__ import annotations

import asyncio
import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadgen.journal import read_requests
from loadgen.records import CellKey, Outcome, RequestRecord
from loadgen.swarm.fleet import CHECKOUT, LOCUSTFILE
from loadgen.swarm.solo import ARM, STREAMS
from loadgen.traffic import TrafficMix
from suites.locate import find_suite
from suites.parse import load_suite
from tests.loadgen.swarm.fleets import REQUEST, engine

LOCUST = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--loglevel", "WARNING"]
ENVIRON = {**os.environ, "PYTHONPATH": str(CHECKOUT)}


def merged(folder: Path) -> list[RequestRecord]:
    (path,) = folder.glob("*-requests.jsonl")
    records, fault = read_requests(path)
    assert fault is None
    return records


def prompts_are_the_suites(records: list[RequestRecord]) -> bool:
    """Stream i's request n is what the traffic mix says, whoever sent it: class and order."""
    suite = load_suite(find_suite("quickstart"))
    prompts = TrafficMix(suite.traffic, suite.seed).cell(CellKey(ARM, STREAMS, 0))
    for record in records:
        stream, number = record.request.split("/")[3:]
        made = prompts.stream(int(stream[1:]))
        wanted = [next(made) for _ in range(int(number) + 1)][-1]
        if (record.traffic_class, record.max_tokens) != (wanted.traffic_class, wanted.max_tokens):
            return False
    return True


async def _locust(*flags: str) -> int:
    process = await asyncio.create_subprocess_exec(*LOCUST, *flags, env=ENVIRON)
    return await asyncio.wait_for(process.wait(), 120)


@pytest.mark.http
@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_streams_records_and_rows(workers: int, tmp_path: Path) -> None:
    port = str(20_000 + os.getpid() % 10_000)
    head = ["--headless", "-u", "4", "-r", "4", "-t", "4s", "--suite", "quickstart"]
    head += ["--csv", str(tmp_path / "figures")]
    if workers:
        head += ["--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port]
        head += ["--expect-workers", str(workers)]
    worker = ("--worker", "--master-host", "127.0.0.1", "--master-port", port)
    theirs = ("--records", str(tmp_path / "theirs"))

    async def run() -> list[int]:
        async with engine().serve(REQUEST) as endpoint:
            main = _locust(*head, "--host", endpoint.base_url, "--records", str(tmp_path / "ours"))
            return await asyncio.gather(main, *(_locust(*worker, *theirs) for _ in range(workers)))

    assert asyncio.run(run()) == [0] * (1 + workers)
    records = merged(tmp_path / "ours")
    assert {record.request.split("/")[3] for record in records} == {"s0", "s1", "s2", "s3"}
    assert {record.outcome for record in records} <= {Outcome.DONE, Outcome.CANCELLED}
    assert prompts_are_the_suites(records)
    theirs_too = [
        record for path in (tmp_path / "theirs").glob("*.jsonl") for record in read_requests(path)[0]
    ]
    if workers:
        here, there = {r.request for r in records}, {r.request for r in theirs_too}
        assert here <= there
        assert len(there) - len(here) <= 2 * len(there) / 4  # locust's master waits half a second at its end
        assert len(theirs_too) == len(there)
    done = [record for record in records if record.outcome is Outcome.DONE]
    _check_rows(tmp_path / "figures_stats.csv", done)


def _check_rows(path: Path, done: list[RequestRecord]) -> None:
    """What locust reports are the figures of the records (the last seconds' reports may be missing)."""
    with path.open() as file:
        rows = {(row["Type"], row["Name"]): row for row in csv.DictReader(file)}
    for name in ("gsm8k", "chat"):
        mine = [record for record in done if record.traffic_class == name]
        for kind in ("E2E", "TTFT", "TPOT"):
            assert 0 < int(rows[kind, name]["Request Count"]) <= len(mine)
        slowest_ms = max((record.first_token_s or 0.0) - record.due_s for record in mine) * 1e3
        assert float(rows["TTFT", name]["Max Response Time"]) <= slowest_ms + 1e-6
        assert float(rows["tokens", f"{name}: output tokens, not ms"]["Max Response Time"]) == 60
        gaps = sum(sum((record.chunk_tokens or ())[1:]) for record in mine)
        assert 0 < int(rows["ITL", f"{name}, per token"]["Request Count"]) <= gaps


def test_help_says_what_a_plain_run_takes() -> None:
    command = [sys.executable, "-m", "loadgen.locustfile", "--help"]
    said = subprocess.run(command, capture_output=True, text=True, env=ENVIRON, check=True).stdout
    for flag in ("--suite", "--traffic", "--max-tokens", "--seed", "--model", "--route", "--records"):
        assert f"  {flag}" in said
    assert "take traffic, seed, route and time limit" in said
