"""Cells in virtual time: the records of HTTP without the wait."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from engines.contract import EngineError
from governors.contract import DepthDecision, StepObservation, StepOutcome
from governors.entry import GovernorEntry
from governors.registry import GOVERNORS
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord, TokenSource
from loadgen.traffic import TrafficMix
from loadgen.virtual import simulate_cell
from suites.model import Arm, LoadSpec, TrafficClass

PROFILE = "h200-qwen3-4b-eagle"
BURST = LoadSpec((4,), mode="burst", requests_per_stream=2, warmup_requests=1)
CLOSED = LoadSpec((4,), mode="closed", requests_per_stream=3, warmup_requests=1)
OFF = Arm("off", "off")
FIXED = Arm("fixed", "fixed", {"depth": 2})
MIX = TrafficMix([TrafficClass("gsm8k", max_tokens=24), TrafficClass("chat", max_tokens=24)], 0)


def run(load: LoadSpec, arm: Arm = OFF, concurrency: int = 4) -> tuple[list[RequestRecord], CellRecord]:
    key = CellKey(arm.name, concurrency, 0)
    records, steps, cell = simulate_cell(PROFILE, arm, {}, key, load, MIX.cell(key), 5)
    assert steps[0].start_s >= 0
    assert [step.start_s for step in steps] == sorted(step.start_s for step in steps)
    return records, cell


@pytest.mark.parametrize("load", [BURST, CLOSED], ids=["burst", "closed"])
def test_every_request_is_done_and_counted(load: LoadSpec) -> None:
    records, cell = run(load)
    turns = load.warmup_requests + (load.requests_per_stream or 0)
    assert len(records) == cell.requests == 4 * turns
    assert {record.outcome for record in records} == {Outcome.DONE}
    assert sum(record.warmup for record in records) == 4
    for record in records:
        assert record.output_tokens == sum(record.chunk_tokens or ()) == 24
        assert record.tokens_are is TokenSource.CONTINUOUS_USAGE
        assert record.due_s <= (record.first_token_s or 0) <= (record.done_s or 0)
    assert (cell.clock, cell.invalid, cell.client_lag_s) == ("virtual", (), None)


@pytest.mark.parametrize("load", [BURST, CLOSED], ids=["burst", "closed"])
def test_bit_for_bit_the_same(load: LoadSpec) -> None:
    assert run(load, FIXED) == run(load, FIXED)


def test_a_burst_waits_for_the_last_of_the_one_before() -> None:
    records, cell = run(BURST)
    by_turn = [[r for r in records if r.request.endswith(f"/{turn}")] for turn in range(3)]
    for before, after in pairwise(by_turn):
        assert {record.due_s for record in after} == {max(record.done_s or 0.0 for record in before)}
    assert cell.window_start_s == by_turn[1][0].due_s
    assert cell.window_end_s == max(record.done_s or 0.0 for record in records)


def test_a_closed_stream_sends_when_its_request_ended() -> None:
    records, cell = run(CLOSED)
    for stream in range(4):
        own = sorted((r for r in records if f"/s{stream}/" in r.request), key=lambda r: r.due_s)
        for before, after in pairwise(own):
            assert after.due_s == before.done_s
    assert cell.window_start_s == max(r.due_s for r in records if r.request.endswith("/1"))


def test_speculation_is_booked_and_its_length_is_consistent() -> None:
    _, cell = run(CLOSED, FIXED)
    assert cell.drafts
    assert cell.accepted_by_position is not None
    assert cell.accepted_tokens == sum(cell.accepted_by_position)
    _, off = run(CLOSED)
    assert (off.drafts, off.draft_tokens) == (0, 0)


def test_arms_meet_the_same_requests() -> None:
    off, _ = run(BURST, OFF)
    fixed, _ = run(BURST, FIXED)

    def asked(records: list[RequestRecord]) -> list[tuple[str, int | None, int]]:
        return sorted((r.request.split("/", 1)[1], r.prompt_tokens, r.max_tokens) for r in records)

    assert asked(off) == asked(fixed)


def test_cells_of_one_journal_do_not_overlap() -> None:
    _, small = run(BURST, concurrency=2)
    _, large = run(BURST, concurrency=4)
    assert small.window_end_s < large.window_start_s


def test_more_streams_than_seats_queue_and_say_so() -> None:
    key = CellKey("off", 4, 0)
    _, _, cell = simulate_cell(PROFILE, OFF, {"max_num_seqs": 2}, key, BURST, MIX.cell(key), 0)
    assert "2 of 4 streams queue: max_num_seqs is 2" in cell.notes


def test_a_deadline_counts_and_nothing_done_is_invalid() -> None:
    records, cell = run(replace(BURST, timeout_s=1e-6))
    assert {record.outcome for record in records} == {Outcome.TIMED_OUT}
    assert all(record.done_s is None for record in records)
    assert cell.invalid == ("none of 12 requests succeeded in virtual time",)


def test_a_governor_that_fails_makes_the_cell_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def decide(self, observation: StepObservation) -> DepthDecision:
            raise RuntimeError("no idea")

        def observe(self, outcome: StepOutcome) -> None:
            return None

    entry = GovernorEntry("broken", "", "D", "ours", lambda options, context: Broken())
    monkeypatch.setitem(GOVERNORS, "broken", entry)
    _, cell = run(BURST, Arm("broken", "broken"))
    (fault,) = cell.invalid
    assert fault.startswith("policy not applied: ")
    assert "calls of the governor failed" in fault


def test_a_warm_up_that_eats_the_whole_cell_is_said() -> None:
    _, cell = run(replace(CLOSED, requests_per_stream=None, warmup_requests=9, duration_s=0.01))
    assert any(fault.startswith("no steady state: ") for fault in cell.invalid)


def test_faults_are_engine_errors() -> None:
    key = CellKey("x", 1, 0)
    with pytest.raises(EngineError, match="unknown governor 'ofd'"):
        simulate_cell(PROFILE, Arm("x", "ofd"), {}, key, BURST, MIX.cell(key), 0)
    with pytest.raises(EngineError, match="exceed max_model_len"):
        simulate_cell(PROFILE, OFF, {"max_model_len": 16}, key, BURST, MIX.cell(key), 0)
