"""One arm put together; a governor that fails inside it; what it saw, replayed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.contract import EngineError
from engines.embedded.assembly import Assembled, RefusalSpec, assemble
from engines.embedded.guard import GuardedGovernor
from engines.embedded.intake import take_in
from governors.contract import DepthDecision, Reason
from governors.entry import GovernorContext
from governors.registry import build_governor
from governors.replay import read_trace, replay
from governors.telemetry import StepRecord
from tests.engines.serving import PROFILE, SCHEDULE
from tests.governors.observations import observation


def run(assembled: Assembled, steps: int = 100) -> list[StepRecord]:
    """Rows of a short run in virtual time: three requests, of which the shortest ends first."""
    for at in range(3):
        assembled.core.submit(take_in(f"prompt {at}", 20 * (at + 1), ignore_eos=True).request, 0.0)
    now_s, rows = 0.0, list[StepRecord]()
    for _ in range(steps):
        result = assembled.core.step(now_s)
        if result is None:
            break
        now_s = result.record.end_s
        rows.append(result.record)
    return rows


@pytest.mark.parametrize(
    ("governor", "options", "speculative", "armed"),
    [("off", {}, False, False), ("fixed", {"depth": 2}, True, False), ("schedule", SCHEDULE, True, True)],
)
def test_what_the_governor_is_sets_up_the_engine(
    governor: str, options: dict[str, Any], speculative: bool, armed: bool
) -> None:
    spec = assemble(PROFILE, governor, options, {}, 0).core.spec
    assert (spec.speculative, spec.schedule_armed) == (speculative, armed)


def test_the_same_arguments_give_the_same_run() -> None:
    runs = [run(assemble(PROFILE, "schedule", SCHEDULE, {}, seed)) for seed in (7, 7, 8)]
    assert runs[0] == runs[1] != runs[2]


def test_warnings_come_through() -> None:
    gap = {"schedule": [[1, 2, 2], [6, 512, 0]]}
    assert any("3" in warning for warning in assemble(PROFILE, "schedule", gap, {}).warnings)


def test_refusal_is_split_from_the_profile_options() -> None:
    assert assemble(PROFILE, "off", {}, {}).refusal is None
    asked = assemble(PROFILE, "off", {}, {"refuse_above": 3, "refuse_status": 503, "max_num_seqs": 2})
    assert asked.refusal == RefusalSpec(3, 503)
    assert asked.core.limits.max_num_seqs == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"refuse_above": 0}, "at least 1"),
        ({"refuse_above": True}, "whole number"),
        ({"refuse_above": "9"}, "whole number"),
        ({"refuse_above": 1, "refuse_status": 500}, "429 or 503"),
        ({"refuse_status": 429}, "add refuse_above"),
        ({"max_num_seqz": 4}, "max_num_seqs"),
    ],
)
def test_bad_engine_options(options: dict[str, object], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        assemble(PROFILE, "off", {}, options)


def test_bad_names_name_the_nearest() -> None:
    with pytest.raises(EngineError, match="did you mean 'schedule'"):
        assemble(PROFILE, "shedule", {}, {})
    with pytest.raises(EngineError, match="h200-qwen3-4b-eagle"):
        assemble("h200-qwen3-4b-eagel", "off", {}, {})


def test_a_recorded_trace_replays_to_the_same_depths(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    assembled = assemble(PROFILE, "schedule", SCHEDULE, {}, 0, path)
    rows = run(assembled)
    assert assembled.recorder is not None
    assembled.recorder.close()
    trace = read_trace(path)
    policy = build_governor("schedule", SCHEDULE, GovernorContext(assembled.core.limits))
    depths = [decision.depth_next for decision in replay(trace, policy)]
    assert depths == [row.depth_chosen for row in rows]
    assert set(depths) == {0, 2}


def test_a_trace_that_cannot_be_written_is_no_fault_of_the_policy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk the policy goes on as if nobody watched."""
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("no /dev/full here")
    watched = assemble(PROFILE, "schedule", SCHEDULE, {}, 0, full)
    plain = assemble(PROFILE, "schedule", SCHEDULE, {}, 0)
    assert run(watched) == run(plain)
    assert watched.recorder is not None
    watched.recorder.close()
    assert "failed in observe" not in caplog.text
    assert caplog.text.count("the trace ends here: ") == 1


class Scripted:
    """Answers what it is told, or raises it."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def decide(self, observation: object) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def observe(self, outcome: object) -> None:
        return None


SEEN = observation(batch=3, k_max=5, step=4)


@pytest.mark.parametrize(
    "answer",
    [
        ValueError("boom"),
        None,
        DepthDecision(windows=np.zeros(2, dtype=np.int64), depth_next=1),
        DepthDecision(windows=np.zeros(3), depth_next=1),  # type: ignore[arg-type]
        DepthDecision(windows=1.5, depth_next=1),  # type: ignore[arg-type]
        DepthDecision(windows=1, depth_next=float("nan")),  # type: ignore[arg-type]
        DepthDecision(windows=True, depth_next=1),  # would end the engine a line later
        DepthDecision(windows=1, depth_next=True),
        DepthDecision(windows=1, depth_next=1, reason="because"),  # type: ignore[arg-type]
    ],
)
def test_the_guard_falls_back_to_k_max_and_counts(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    guard = GuardedGovernor(Scripted(answer), "scripted", k_max=5)
    with caplog.at_level(logging.WARNING):
        decisions = [guard.decide(SEEN) for _ in range(3)]
    assert {(d.windows, d.depth_next, d.reason) for d in decisions} == {(5, 5, Reason.NO_MODEL)}
    assert guard.errors == 3
    assert len(caplog.records) == 1  # said once in five seconds, not once a step
    assert "governor scripted failed in decide at step 4" in caplog.text


def test_the_guard_passes_sound_decisions_through() -> None:
    sound = DepthDecision(windows=np.array([1, 2, 3]), depth_next=np.int64(2))  # type: ignore[arg-type]
    guard = GuardedGovernor(Scripted(sound), "scripted", k_max=5)
    assert guard.decide(SEEN) is sound
    assert guard.errors == 0
