"""The gate in a double of vLLM's scheduler: outputs stay the truth, counts agree, it survives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from governors.contract import DepthDecision, DepthLimits, Reason, StepObservation, StepOutcome
from governors.vllm_engine import VllmFacts
from governors.vllm_gate import UNSEEN, Gate
from governors.vllm_hooks import REPORT
from governors.vllm_outcome import OutcomeReader
from governors.vllm_seat import Sitter
from governors.vllm_settings import Settings
from tests.governors.vllm_fakes import FakeRequest, FakeWorker, drive, governed_fake, truth

K_MAX = 4
SYNC = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def facts(asynchronous: bool = False, **more: Any) -> VllmFacts:
    plain: dict[str, Any] = {
        "limits": DepthLimits(K_MAX, 8, (1, 2, 4, 8, 16)),
        "method": "eagle",
        "stock": (0, *[2] * 3, 0, 1, 3, *[4] * 2),
        "asynchronous": asynchronous,
        "runner_v2": False,
        "trims": True,
        "workers_here": True,
        "data_parallel": 1,
    }
    return VllmFacts(**(plain | more))


def requests(count: int = 6) -> list[FakeRequest]:
    return [FakeRequest(f"r{n}", 5 + 17 * n, 20 + n) for n in range(count)]


class Recording:
    """Decides by `rule`, keeps what it saw."""

    def __init__(self, rule: Any) -> None:
        self._rule = rule
        self.seen: list[StepObservation] = []
        self.outcomes: list[StepOutcome] = []

    def decide(self, observation: StepObservation) -> DepthDecision:
        self.seen.append(observation)
        decision: DepthDecision = self._rule(observation)
        return decision

    def observe(self, outcome: StepOutcome) -> None:
        self.outcomes.append(outcome)


def ragged(observation: StepObservation) -> DepthDecision:
    """Windows 0..K_MAX that change from step to step, and depths that do as well."""
    windows = (observation.request_ids + observation.step) % (K_MAX + 1)
    return DepthDecision(windows, observation.step % (K_MAX + 1), Reason.BACKED_OFF)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(
    asynchronous: bool,
    settings: Settings,
    recording: Recording | None = None,
    worker: FakeWorker | None = None,
) -> tuple[list[FakeRequest], Gate, list[str], int]:
    said: list[str] = []
    gate = Gate(facts(asynchronous), settings, said.append)
    if recording is not None:
        gate.seat.replace(Sitter("recording", {}, recording))
    scheduler = governed_fake(asynchronous, gate, K_MAX, lookup=list(facts().stock or ()))
    asked = requests()
    steps = drive(scheduler, worker or FakeWorker(), asked)
    scheduler.shutdown()
    return asked, gate, said, steps


GOVERNORS: Sequence[tuple[str | None, Mapping[str, object]]] = (
    (None, {}),
    ("fixed", {"depth": 0}),
    ("fixed", {"depth": 3}),
    ("schedule", {"schedule": [[1, 2, 4], [3, 8, 0]]}),
    ("dspark", {}),
    ("goodput_table", {}),
)


@SYNC
@pytest.mark.parametrize(("name", "options"), GOVERNORS)
def test_no_governor_changes_what_is_said(
    asynchronous: bool, name: str | None, options: Mapping[str, object], tmp_path: Path
) -> None:
    path = tmp_path / "steps.jsonl"
    asked, gate, _, steps = run(asynchronous, Settings(name, options, steps=path))
    for request in asked:
        start = request.num_prompt_tokens
        assert request.output == [truth(request.request_id, start + n) for n in range(request.max_tokens)]
    assert gate.seat.faults == 0
    written = rows(path)
    assert [row["step"] for row in written] == list(range(steps))
    assert sum(row["emitted"] for row in written) == sum(request.max_tokens for request in asked)


@SYNC
def test_ragged_windows_keep_the_truth_and_are_what_was_verified(asynchronous: bool, tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    recording = Recording(ragged)
    asked, gate, _, _ = run(asynchronous, Settings(steps=path), recording)
    assert gate.seat.faults == 0
    assert all(len(request.output) == request.max_tokens for request in asked)
    assert len(recording.seen) == len(recording.outcomes) == len(rows(path))
    trimmed = 0
    for seen, outcome in zip(recording.seen, recording.outcomes, strict=True):
        wanted = np.minimum(ragged(seen).windows, seen.drafts_in_hand)
        counted = outcome.verified > 0  # a request that ended in flight is not counted
        assert (outcome.verified[counted] == wanted[counted]).all()
        assert (outcome.accepted <= outcome.verified).all()
        assert (seen.request_ids == outcome.request_ids).all()
        trimmed += int((wanted < seen.drafts_in_hand).sum())
    assert trimmed > 20


@SYNC
def test_depth_in_force_is_what_was_chosen_a_step_before(asynchronous: bool) -> None:
    recording = Recording(ragged)
    run(asynchronous, Settings(), recording)
    chosen = [outcome.depth_chosen for outcome in recording.outcomes]
    assert [seen.depth_in_force for seen in recording.seen[1:]] == chosen[:-1]
    for before, seen in zip(chosen, recording.seen[1:], strict=False):
        assert (seen.drafts_in_hand <= before).all()


def test_a_drafter_that_does_less_is_booked_as_it_ran(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    recording = Recording(lambda _: DepthDecision(K_MAX, 3))
    run(False, Settings(steps=path), recording, FakeWorker(runs_depth=lambda depth: min(depth, 1)))
    assert {row["depth_chosen"] for row in rows(path)} == {3}
    assert {row["depth_executed"] for row in rows(path)} == {1}
    assert {seen.depth_in_force for seen in recording.seen[1:]} == {1}


@SYNC
def test_history_is_what_the_outcomes_add_up_to_and_is_freed(asynchronous: bool) -> None:
    recording = Recording(ragged)
    _, gate, _, _ = run(asynchronous, Settings(), recording)
    totals: dict[int, np.ndarray[Any, Any]] = {}
    lag = 1 + asynchronous  # outcomes of the step before (or the one before that) are in the history
    for number, seen in enumerate(recording.seen):
        for outcome in recording.outcomes[max(0, number - lag) : number - lag + 1] if number >= lag else []:
            for handle, accepted in zip(outcome.request_ids, outcome.accepted, strict=True):
                row = totals.setdefault(int(handle), np.zeros(K_MAX, np.int64))
                row[:accepted] += 1
        for place, handle in enumerate(seen.request_ids):
            expected = totals.get(int(handle), np.zeros(K_MAX, np.int64))
            assert (seen.history.accepted[place] == expected).all()
    handles = {int(handle) for seen in recording.seen for handle in seen.request_ids}
    assert len(handles) == 6
    assert len(gate._reader.table) <= 6  # released when the next step names the finished


@SYNC
def test_context_counts_prompt_and_output_so_far(asynchronous: bool) -> None:
    recording = Recording(lambda _: DepthDecision(2, 2))
    run(asynchronous, Settings(), recording)
    emitted: dict[int, int] = {}
    prompts: dict[int, int] = {}
    for number, seen in enumerate(recording.seen):
        for outcome in [recording.outcomes[number - 2]] if asynchronous and number >= 2 else []:
            for handle, accepted in zip(outcome.request_ids, outcome.accepted, strict=True):
                emitted[int(handle)] = emitted.get(int(handle), 0) + int(accepted) + 1
        for handle, context in zip(seen.request_ids, seen.context_tokens, strict=True):
            known = prompts.setdefault(int(handle), int(context))
            assert context >= known
    last: dict[int, int] = {}
    for seen in recording.seen:
        last.update(zip(seen.request_ids.tolist(), seen.context_tokens.tolist(), strict=True))
    for handle, context in last.items():
        request = requests()[handle]
        most = request.num_prompt_tokens + request.max_tokens
        assert most - 2 * (K_MAX + 1) <= context <= most


class Failing:
    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error or KeyError("no such table")

    def decide(self, observation: StepObservation) -> DepthDecision:
        raise self._error

    def observe(self, outcome: StepOutcome) -> None:
        raise AssertionError("never called for nothing")


@SYNC
@pytest.mark.parametrize("fault", ["raises", "exits", "shape", "nan"])
def test_a_failing_governor_leaves_the_engine_its_own_depth(
    asynchronous: bool, fault: str, tmp_path: Path
) -> None:
    path = tmp_path / "steps.jsonl"
    broken: Any = {
        "raises": Failing(),
        "exits": Failing(SystemExit(1)),
        "shape": Recording(lambda _: DepthDecision(np.zeros(99, np.int64), 1)),
        "nan": Recording(lambda seen: DepthDecision(np.full(seen.batch, np.nan), 1)),
    }[fault]
    asked, gate, said, steps = run(asynchronous, Settings(steps=path), broken)
    assert all(len(request.output) == request.max_tokens for request in asked)
    assert gate.seat.faults >= steps
    assert len(said) == 1
    written = rows(path)
    stock = facts().stock or ()
    assert all(row["depth_chosen"] == stock[row["batch"] + row["prefill_requests"]] for row in written)
    assert {row["reason"] for row in written} == {"governor-fault"}
    assert [row["note"] for row in written if "note" in row] == said
    assert written[-1]["faults"] > 0


def test_a_fault_of_the_gate_itself_is_counted_and_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("governors.vllm_outcome.OutcomeReader.book", lambda *_: 1 // 0)
    asked, gate, said, _ = run(False, Settings())
    assert all(len(request.output) == request.max_tokens for request in asked)
    assert gate.seat.faults > 0
    assert "ZeroDivisionError" in said[0]


@SYNC
@pytest.mark.parametrize("seam", [(OutcomeReader, "book"), (Gate, "_deliver")], ids=["receive", "deliver"])
def test_a_step_whose_output_is_lost_does_not_hold_up_those_after_it(
    asynchronous: bool, seam: tuple[type, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = seam
    whole, calls = getattr(owner, name), count()

    def fails_once(*args: Any) -> Any:
        if next(calls) == 4:
            raise ValueError("once")
        return whole(*args)

    monkeypatch.setattr(owner, name, fails_once)
    path, recording = tmp_path / "steps.jsonl", Recording(ragged)
    _, gate, said, steps = run(asynchronous, Settings(steps=path), recording)
    written = rows(path)
    assert len(recording.outcomes) == len(written) == steps - 1
    assert [row["step"] for row in written] == [step for step in range(steps) if step != 4]
    assert [row["note"] for row in written if "note" in row] == said
    assert (gate.seat.faults, written[-1]["faults"]) == (1, 1)


def test_durations_and_graph_mode_come_from_the_worker(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    recording = Recording(lambda _: DepthDecision(2, 2))
    run(False, Settings(steps=path), recording)
    for row in rows(path):
        assert (row["target_s"], row["draft_s"], row["graph_mode"]) == (0.004, 0.001, "full")
    assert rows(path)[0]["step_s"] > 0
    assert rows(path)[-1]["step_s"] is None  # nothing was scheduled after it
    assert recording.seen[1].durations is not None
    assert recording.seen[1].durations.target_s == 0.004


@SYNC
def test_one_step_in_so_many_is_timed_and_all_have_rows(asynchronous: bool, tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    _, gate, _, steps = run(asynchronous, Settings(steps=path, time_every=3))
    written = rows(path)
    assert len(written) == steps > 6
    assert [row["target_s"] for row in written] == [0.004 if n % 3 == 0 else None for n in range(steps)]
    assert {row["graph_mode"] for row in written} == {"full"}
    assert gate.seat.faults == 0


def test_without_telemetry_nothing_is_timed_or_written(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    recording = Recording(lambda _: DepthDecision(2, 2))
    run(False, Settings(steps=path, telemetry=False), recording)
    assert path.read_text() == ""
    assert {outcome.durations.target_s for outcome in recording.outcomes} == {None}


class Mute(FakeWorker):
    """A worker whose process has no hooks."""

    def execute(self, output: Any) -> Any:
        result = super().execute(output)
        delattr(result, REPORT)
        return result


def test_a_worker_out_of_sight_is_said_once_and_costs_the_durations(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    _, gate, said, _ = run(False, Settings("fixed", {"depth": 2}, steps=path), worker=Mute())
    assert said == [UNSEEN]
    written = rows(path)
    assert [row["note"] for row in written if "note" in row] == [UNSEEN]
    assert {(row["target_s"], row["depth_executed"], row["graph_mode"]) for row in written} == {
        (None, 2, "unknown")
    }
    assert gate.seat.faults == 0


def test_nobody_is_told_of_steps_that_a_predecessor_decided() -> None:
    gate = Gate(facts(), Settings("fixed", {"depth": 2}), print)
    recording = Recording(lambda _: DepthDecision(2, 2))
    scheduler, worker = governed_fake(False, gate, K_MAX), FakeWorker()
    drive(scheduler, worker, requests(2))
    gate.seat.replace(Sitter("recording", {}, recording))
    drive(scheduler, worker, [FakeRequest("later", 5, 9)])
    assert [seen.step for seen in recording.seen] == [outcome.step for outcome in recording.outcomes]


def test_a_preempted_request_prefills_again_and_keeps_its_history() -> None:
    gate = Gate(facts(), Settings(), print)
    recording = Recording(lambda _: DepthDecision(3, 3))
    gate.seat.replace(Sitter("recording", {}, recording))
    scheduler, worker = governed_fake(False, gate, K_MAX), FakeWorker()
    asked = [FakeRequest("stays", 9, 40), FakeRequest("goes", 30, 40)]
    for request in asked:
        worker.prompts[request.request_id] = request.num_prompt_tokens
        scheduler.add_request(request)
    for step in range(100):
        if step == 8:
            scheduler.preempt("goes")
            worker.tokens.pop("goes")
        output = scheduler.schedule()
        if not output.num_scheduled_tokens:
            break
        scheduler.update_from_output(output, worker.execute(output))
        scheduler.update_draft_token_ids(worker.drafts)
    assert [len(request.output) for request in asked] == [40, 40]
    again = next(seen for seen in recording.seen[2:] if seen.prefill_requests)
    assert again.prefill_tokens == len(asked[1].output[: again.prefill_tokens - 30]) + 30 > 30
    after = recording.seen[again.step + 1]
    assert (after.batch, set(after.request_ids.tolist())) == (2, {0, 1})
    place = after.request_ids.tolist().index(1)
    assert after.history.reached[place].sum() > 0
    assert gate.seat.faults == 0


def test_an_aborted_request_in_flight_is_not_counted() -> None:
    """The step after the abort is already with the worker (async): its tokens go nowhere."""
    gate = Gate(facts(asynchronous=True), Settings(), print)
    recording = Recording(lambda _: DepthDecision(3, 3))
    gate.seat.replace(Sitter("recording", {}, recording))
    scheduler, worker = governed_fake(True, gate, K_MAX), FakeWorker()
    for name in ("stays", "aborted"):
        worker.prompts[name] = 9
        scheduler.add_request(FakeRequest(name, 9, 200))
    flying = []
    for step in range(12):
        output = scheduler.schedule()
        flying.append((output, worker.execute(output)))
        if step == 8:
            scheduler.finish("aborted")
        if len(flying) > 1:
            scheduler.update_from_output(*flying.pop(0))
    for outcome in recording.outcomes:
        aborted = [int(n) for n, handle in zip(outcome.verified, outcome.request_ids, strict=True) if handle]
        assert sum(aborted) == 0 or outcome.step < 7
    assert {len(seen.request_ids) for seen in recording.seen[9:]} == {1}
    assert len(gate._reader.table) == 1
