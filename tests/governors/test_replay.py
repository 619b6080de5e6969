"""Traces: exact there and back, clear about what is wrong with a bad one, and replayed alike every time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from governors.contract import DepthLimits, StepObservation
from governors.entry import GovernorContext
from governors.registry import build_governor
from governors.replay import ObservationTrace, TraceStep, read_trace, replay, trace_line, write_trace
from governors.trace_line import TraceError
from tests.governors.observations import observation, outcome
from tests.governors.traces import synthetic_trace

STEP = TraceStep(
    observation(batch=2, confidence=[[1 / 3, math.nan, 0.1], [0.2, 0.9, 1e-300]]), outcome([3, 1], [2, 0])
)


def _same(one: StepObservation, other: StepObservation) -> None:
    for name in StepObservation.__dataclass_fields__:
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, np.ndarray):
            np.testing.assert_array_equal(mine, theirs, strict=True)
        elif name == "history":
            np.testing.assert_array_equal(mine.reached, theirs.reached, strict=True)
            np.testing.assert_array_equal(mine.accepted, theirs.accepted, strict=True)
        else:
            assert mine == theirs


def test_there_and_back_is_exact(tmp_path: Path) -> None:
    steps = [
        STEP,
        TraceStep(observation(batch=0, prefill_requests=1)),
        TraceStep(observation(batch=2, k_max=0)),
    ]
    write_trace(tmp_path / "t.jsonl", steps)
    trace = read_trace(tmp_path / "t.jsonl")
    assert not trace.partial
    for written, read in zip(steps, trace.steps, strict=True):
        _same(written.observation, read.observation)
    assert trace.steps[1].outcome is None
    back = trace.steps[0].outcome
    assert back is not None
    assert (back.verified.tolist(), back.accepted.tolist(), back.graph_mode) == ([3, 1], [2, 0], "full")
    assert trace_line(trace.steps[0].observation, back) == trace_line(STEP.observation, STEP.outcome)


def test_arrays_read_back_are_read_only(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.jsonl", [STEP])
    seen = read_trace(tmp_path / "t.jsonl").steps[0].observation
    with pytest.raises(ValueError, match="read-only"):
        seen.confidence[0, 0] = 0.0


def test_a_trace_cut_at_any_byte_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    whole = (trace_line(STEP.observation, STEP.outcome) * 2).encode()
    length = len(whole) // 2
    path = tmp_path / "t.jsonl"
    for cut in [0, 1, length - 1, length, length + 1, 2 * length - 1, 2 * length]:
        path.write_bytes(whole[:cut])
        trace = read_trace(path)
        assert (len(trace.steps), trace.partial) == (cut // length, cut % length > 0)


def _changed(path: list[str], value: Any) -> str:
    plain = json.loads(trace_line(STEP.observation, STEP.outcome))
    place = plain
    for key in path[:-1]:
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(plain)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", r"t\.jsonl:2: not JSON"),
        ("[" * 100_000, r"t\.jsonl:2: not JSON"),
        ("[]", r"step is \[\], not an object"),
        (_changed(["observation"], None), "observation is None, not an object"),
        (_changed(["observation", "now_s"], KeyError), "observation.now_s is missing"),
        (_changed(["observation", "now_s"], "0"), "observation.now_s='0': give seconds"),
        (_changed(["observation", "now_s"], math.nan), "observation.now_s=nan: give seconds"),
        (_changed(["observation", "step"], -1), "observation.step=-1: give a whole number"),
        (_changed(["observation", "step"], True), "observation.step=True: give a whole number"),
        (_changed(["observation", "step"], 10**30), "observation.step=1000000.*: give a whole number"),
        (_changed(["observation", "request_ids"], 3), "observation.request_ids=3: give one row"),
        (
            _changed(["observation", "drafts_in_hand"], [1]),
            r"drafts_in_hand=\[1\]: give shape \(2,\); it has \(1,\)",
        ),
        (_changed(["observation", "drafts_in_hand"], [1, 4]), "drafts_in_hand=.*give at most k_max=3"),
        (_changed(["observation", "drafts_in_hand"], [1, -4]), "drafts_in_hand=.*not negative"),
        (_changed(["observation", "drafts_in_hand"], [1.5, 2]), "drafts_in_hand=.*whole numbers"),
        (_changed(["observation", "drafts_in_hand"], [None, 2]), "drafts_in_hand=.*whole numbers"),
        (_changed(["observation", "drafts_in_hand"], [10**30, 2]), "drafts_in_hand=.*whole numbers"),
        (
            _changed(["observation", "confidence"], [[0.1], [0.1, 0.2, 0.3]]),
            "confidence=.*rows of one length",
        ),
        (_changed(["observation", "confidence"], [0.1]), r"confidence=\[0\.1\]: give rows"),
        (_changed(["observation", "confidence"], [["a"] * 3] * 2), "confidence=.*give numbers or null"),
        (_changed(["observation", "reached"], [[1, 2, 3]]), r"reached=.*give shape \(2, 3\)"),
        (_changed(["observation", "limits"], [3, 8]), "limits=.*k_max, max_num_seqs"),
        (_changed(["observation", "limits"], [3, "8", []]), "limits=.*whole numbers"),
        (_changed(["observation", "durations"], [1, 2]), "durations=.*target_s, draft_s, step_s"),
        (_changed(["observation", "durations"], [1, 2, "3"]), "durations=.*finite numbers, or null"),
        (_changed(["outcome"], 3), "outcome is 3, not an object"),
        (_changed(["outcome", "graph_mode"], "warp"), "graph_mode='warp': give one of full, piecewise"),
        (_changed(["outcome", "verified"], [1, 2, 3]), r"outcome\.verified=.*give shape \(2,\)"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(trace_line(STEP.observation) + line + "\n")
    with pytest.raises(TraceError, match=said) as caught:
        read_trace(path)
    assert len(str(caught.value)) < 1000


def test_replays_alike_and_observes_what_was_recorded() -> None:
    trace = ObservationTrace(tuple(synthetic_trace(3)))
    context = GovernorContext(DepthLimits(4, 64))

    def depths() -> list[int]:
        governor = build_governor("schedule", {"schedule": [[1, 8, 4], [9, 64, 0]]}, context)
        return [decision.depth_next for decision in replay(trace, governor)]

    assert depths() == depths()
    assert len(depths()) == len(trace.steps)
    assert set(depths()) == {0, 4}
