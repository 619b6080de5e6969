"""Over HTTP and in virtual time the embedded engine meets the same requests and answers them alike."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from engines.contract import EngineRequest
from engines.embedded.launcher import EmbeddedEngine
from loadgen.cell import drive_cell
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord, TokenSource
from loadgen.traffic import TrafficMix
from loadgen.virtual import simulate_cell
from suites.model import Arm, LoadSpec, TrafficClass

pytestmark = pytest.mark.http
PROFILE = "h200-qwen3-4b-eagle"
ARM = Arm("fixed", "fixed", {"depth": 2})
KEY = CellKey("fixed", 3, 1)
LOAD = LoadSpec((3,), mode="burst", requests_per_stream=2, timeout_s=30)
MIX = TrafficMix(
    [TrafficClass("gsm8k", max_tokens=24), TrafficClass("chat", max_tokens=24, ignore_eos=False)], 0
)


def over_http(load: LoadSpec) -> tuple[list[RequestRecord], CellRecord]:
    records: list[RequestRecord] = []

    async def run() -> CellRecord:
        request = EngineRequest("fixed", ARM.governor, ARM.options, seed=7 + KEY.repeat)
        async with EmbeddedEngine(PROFILE).serve(request) as endpoint:
            return await drive_cell(endpoint, KEY, load, MIX.cell(KEY), on_record=records.append)

    cell = asyncio.run(run())
    return records, cell


def by_request(records: list[RequestRecord]) -> dict[str, tuple[object, ...]]:
    return {r.request: (r.traffic_class, r.prompt_tokens, r.output_tokens, r.max_tokens) for r in records}


@pytest.mark.parametrize(
    "load", [LOAD, replace(LOAD, mode="closed", route="completions")], ids=["burst", "closed"]
)
def test_the_same_requests_get_the_same_tokens(load: LoadSpec) -> None:
    records, cell = over_http(load)
    simulated, _, virtual = simulate_cell(PROFILE, ARM, {}, KEY, load, MIX.cell(KEY), seed=7)
    assert {record.outcome for record in records} == {Outcome.DONE}
    assert by_request(records) == by_request(simulated)
    assert {record.tokens_are for record in records} == {TokenSource.CONTINUOUS_USAGE}
    for record in records:
        assert sum(record.chunk_tokens or ()) == record.output_tokens
    assert cell.drafts is not None
    assert virtual.drafts is not None
    assert cell.accepted_by_position is not None
    assert cell.reached_by_position is not None
    assert cell.accepted_tokens == sum(cell.accepted_by_position)
    assert cell.lag_s is not None
