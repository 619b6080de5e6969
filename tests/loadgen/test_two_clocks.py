"""The wall clock runs the virtual clock's steps: the same tokens, K and durations, later by lateness alone.

No bound here is a fixed time. What may lie between the two windows is what the server itself reports (idle
time between its steps, how late tokens left), what the client's loop reports, and what its probe cannot see.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from engines.contract import EngineRequest
from engines.embedded.launcher import EmbeddedEngine
from governors.telemetry import StepRecord
from loadgen.cell import drive_cell
from loadgen.lag import PROBE_S
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.traffic import TrafficMix
from loadgen.virtual import simulate_cell
from suites.model import Arm, LoadSpec, TrafficClass

pytestmark = pytest.mark.http
PROFILE = "h200-qwen3-4b-eagle"
SEED = 11
MIX = TrafficMix([TrafficClass("gsm8k", max_tokens=64), TrafficClass("chat", max_tokens=64)], 0)
STEADY_HOST = {"host": {"level_sd": 0.0, "jitter_sd": 0.0}}
CLOCK_FIELDS = ("start_s", "end_s", "lag_s")
ALONE = [
    Arm("off", "off"),
    Arm("cycle", "cycle", {"depths": [4, 0, 0, 1]}),
    Arm("goodput", "goodput_table", {"warmup_steps": 3, "window_steps": 8, "probe_every": 5}),
    Arm("argmax", "dspark_argmax", {"rest_after": 2, "probe_every": 7}),
]


@dataclass(frozen=True)
class Ran:
    """One cell; `steps` as rows of the step journal, whichever clock made them."""

    records: Sequence[RequestRecord]
    steps: Sequence[Mapping[str, Any]]
    cell: CellRecord

    @property
    def window_s(self) -> float:
        return self.cell.window_end_s - self.cell.window_start_s

    @property
    def tokens_per_s(self) -> float:
        return sum(record.output_tokens or 0 for record in self.records) / self.window_s

    @property
    def tokens(self) -> dict[str, int | None]:
        return {record.request: record.output_tokens for record in self.records}

    @property
    def edges(self) -> dict[str, set[int]]:
        """Tokens that a request had after each of its chunks. A late server joins chunks, and splits none."""
        return {record.request: set(accumulate(record.chunk_tokens or ())) for record in self.records}

    @property
    def delays_s(self) -> float:
        """Everything measured that is not a step: idle server, late tokens, a client that woke late."""
        starts = [step["start_s"] for step in self.steps]
        ends = [self.cell.window_start_s, *(step["end_s"] for step in self.steps)]
        idle_s = sum(max(0.0, start - end) for start, end in zip(starts, ends, strict=False))
        late_s = sum(step["lag_s"] for step in self.steps)
        return float(idle_s + late_s + (self.cell.client_lag_s or 0.0) + PROBE_S)


def rows(steps: Sequence[StepRecord]) -> list[dict[str, Any]]:
    return [orjson.loads(orjson.dumps(step)) for step in steps]


def shapes(ran: Ran) -> list[dict[str, Any]]:
    """The steps without what a clock puts into them."""
    return [{key: value for key, value in step.items() if key not in CLOCK_FIELDS} for step in ran.steps]


def same_tokens(served: Ran, virtual: Ran) -> bool:
    """Each request the same count, in the steps of virtual time."""
    return served.tokens == virtual.tokens and all(
        edges <= virtual.edges[request] for request, edges in served.edges.items()
    )


def both(arm: Arm, load: LoadSpec, options: Mapping[str, object], folder: Path) -> tuple[Ran, Ran]:
    """(over HTTP, in virtual time)"""
    key = CellKey(arm.name, load.concurrency[0], 0)
    records: list[RequestRecord] = []
    journal = folder / "steps.jsonl"

    async def run() -> CellRecord:
        request = EngineRequest(arm.name, arm.governor, arm.options, options, SEED, steps_path=journal)
        async with EmbeddedEngine(PROFILE).serve(request) as endpoint:
            return await drive_cell(
                endpoint, key, load, MIX.cell(key), on_record=records.append, clock=time.monotonic
            )

    cell = asyncio.run(run())
    served = Ran(records, [orjson.loads(line) for line in journal.read_bytes().splitlines()], cell)
    simulated, steps, virtual = simulate_cell(PROFILE, arm, options, key, load, MIX.cell(key), SEED)
    assert {record.outcome for record in (*records, *simulated)} == {Outcome.DONE}
    return served, Ran(simulated, rows(steps), virtual)


@pytest.mark.parametrize("arm", ALONE, ids=lambda arm: arm.name)
def test_a_stream_alone_gets_the_very_steps_of_virtual_time(arm: Arm, tmp_path: Path) -> None:
    """One request at a time: nothing depends on when it comes, so every step is the same to the last bit,
    K, windows, acceptance, durations and all; and the window is longer by measured delays, never shorter."""
    load = LoadSpec((1,), mode="burst", requests_per_stream=3, timeout_s=60)
    served, virtual = both(arm, load, {}, tmp_path)
    assert same_tokens(served, virtual)
    assert shapes(served) == shapes(virtual)
    assert served.window_s >= virtual.window_s - 1e-6  # the monotonic clock's resolution, over the steps
    assert served.tokens_per_s >= virtual.tokens_per_s * (
        1 - served.delays_s / (virtual.window_s + served.delays_s)
    )


def test_no_token_leaves_before_its_step_has_ended(tmp_path: Path) -> None:
    """Server and client stamp with one clock: chunk n of the only request belongs to emitting step n."""
    load = LoadSpec((1,), mode="burst", requests_per_stream=1, timeout_s=60)
    served, _ = both(Arm("fixed", "fixed", {"depth": 2}), load, {}, tmp_path)
    ends = [step["end_s"] for step in served.steps if step["emitted"]]
    (record,) = served.records
    tokens_by = {end: sum(step["emitted"] for step in served.steps if step["end_s"] <= end) for end in ends}
    got = 0
    for seen_s, count in zip(record.chunk_times_s, record.chunk_tokens or (), strict=True):
        got += count
        assert got <= max(tokens for end, tokens in tokens_by.items() if end <= seen_s)


def test_a_burst_differs_by_how_its_requests_came_in(tmp_path: Path) -> None:
    """Over HTTP eight requests do not arrive in one instant. At a fixed K a request's chunks are its own, so
    they are the same; the run is longer by at most the steps that passed before the last one joined."""
    load = LoadSpec((8,), mode="burst", requests_per_stream=1, timeout_s=60)
    served, virtual = both(Arm("fixed", "fixed", {"depth": 2}), load, STEADY_HOST, tmp_path)
    assert same_tokens(served, virtual)
    assert {step["depth_executed"] for step in served.steps} == {2}
    joins = [number for number, step in enumerate(served.steps) if step["prefill_requests"]]
    extra = joins[-1]
    assert len(virtual.steps) <= len(served.steps) <= len(virtual.steps) + extra
    assert sum(step["emitted"] for step in served.steps) == sum(step["emitted"] for step in virtual.steps)
    longest_s = max(step["step_s"] for step in (*served.steps, *virtual.steps))
    assert served.window_s <= virtual.window_s + extra * longest_s + served.delays_s
    # each early request may have left that many steps sooner, with its share of the others' steps
    assert served.window_s >= virtual.window_s - 8 * extra * longest_s
    assert all(after["start_s"] >= before["end_s"] for before, after in pairwise(served.steps))


def test_a_closed_loop_gives_each_request_the_same_chunks(tmp_path: Path) -> None:
    load = LoadSpec((3,), mode="closed", requests_per_stream=2, timeout_s=60)
    served, virtual = both(Arm("fixed", "fixed", {"depth": 2}), load, {}, tmp_path)
    assert same_tokens(served, virtual)
    assert sum(step["emitted"] for step in served.steps) == sum(step["emitted"] for step in virtual.steps)
