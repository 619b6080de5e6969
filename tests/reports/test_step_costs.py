"""Profiles out of step records: medians, monotone, stairs, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from governors.profile import Binding
from governors.telemetry import StepRecord
from reports.step_costs import TooFewSteps, fit_profile, padded, rising, steady_steps

BINDING = Binding("gpu", "model", "eagle", "vLLM 0.32.0")


def step(
    batch: int, depth: int, step_s: float | None = 0.01, draft_s: float | None = 0.002, **fields: object
) -> StepRecord:
    given: dict[str, object] = {
        "step": 1, "start_s": 0.0, "end_s": 0.0, "batch": batch, "prefill_requests": 0,
        "prefill_tokens": 0, "waiting": 0, "depth_in_force": depth,
        "depth_chosen": depth, "depth_executed": depth,
        "window_mean": float(depth), "verified": batch * depth, "accepted": 0, "emitted": batch,
        "reached_by_position": (batch,) * depth, "accepted_by_position": (0,) * depth,
        "target_s": None, "draft_s": draft_s, "step_s": step_s, "graph_mode": "full",
        "kv_blocks_free": None, "kv_blocks_total": None, "preempted": 0, "reason": "steady",
    }  # fmt: skip
    return StepRecord(**{**given, **fields})  # type: ignore[arg-type]


def rounds(batch: int, depth: int, *seconds: float, draft_s: float | None = 0.002) -> list[list[StepRecord]]:
    """A round for each of `seconds`, of five steps, one of which stalled."""
    return [[*[step(batch, depth, s, draft_s)] * 4, step(batch, depth, 50 * s, draft_s)] for s in seconds]


def test_only_steady_steps_count() -> None:
    good = step(4, 2)
    others = [
        step(3, 2), step(4, 1), step(4, 2, prefill_requests=1), step(4, 2, waiting=2),
        step(4, 2, depth_executed=0), step(4, 2, step_s=None),
    ]  # fmt: skip
    assert steady_steps([*others, good], 4, 2) == [good]


def test_tables_are_medians_of_served_steps() -> None:
    grid = {(b, k): rounds(b, k, 0.001 * (5 + b + k), draft_s=0.001 * k) for b in (1, 4) for k in (0, 2)}
    fitted = fit_profile(grid, BINDING, (), "here", is_model=False)
    profile = fitted.profile
    assert (profile.batches, profile.depths, fitted.steps) == ((1, 4), (0, 2), 5)
    assert profile.step_s[0] == pytest.approx((0.006, 0.008))
    assert profile.step_s[1] == pytest.approx((0.009, 0.011))
    assert profile.verify_tokens == (1, 3, 4, 12)  # batch x (1 + K)
    assert profile.verify_s == pytest.approx((0.006, 0.006, 0.009, 0.009))
    assert profile.draft_s == pytest.approx((0.002, 0.002))
    assert not fitted.remarks
    assert profile.from_mapping(profile.to_mapping()) == profile


def test_noise_is_smoothed_and_said() -> None:
    remarks: list[str] = []
    noisy: Sequence[Sequence[Sequence[float]]] = [[[0.010]], [[0.012]], [[0.011]], [[0.020]]]
    smooth = rising(noisy, ["a", "b", "c", "d"], remarks)
    assert smooth == pytest.approx((0.010, 0.0115, 0.0115, 0.020))
    assert remarks == ["b: 12.00 ms, smoothed to 11.50 ms"]


def test_a_hole_that_holds_in_three_rounds_is_kept_and_a_drift_is_not() -> None:
    """139 -> 830 ms at 3 requests among graphs of [1, 2, 4] (shared/cases, capture-hole)."""
    hole = [[[0.139]] * 3, [[0.830], [0.8], [0.9]], [[0.15]] * 3]
    remarks: list[str] = []
    assert rising(hole, ["2", "3", "4"], remarks) == pytest.approx((0.139, 0.830, 0.15))
    assert remarks == ["3: 830.00 ms, in every round more than at a larger load; kept"]
    drift = [[[0.010], [0.014], [0.010]], [[0.010], [0.010], [0.012]]]
    assert rising(drift, ["1", "2"], []) == pytest.approx((0.010, 0.010))
    assert rising([[[0.830]], [[0.15]]], ["3", "4"], []) == pytest.approx(
        (0.49, 0.49)
    )  # a lone round shows none


def test_below_the_capture_limit_costs_are_stairs() -> None:
    assert [padded(n, (1, 2, 4, 8)) for n in (1, 3, 4, 5, 9)] == [1, 4, 4, 8, 9]
    grid = {(b, 0): rounds(b, 0, 0.001 * b, draft_s=0.0) for b in (1, 3, 4, 9)} | {
        (b, 1): rounds(b, 1, 0.002 * b, draft_s=0.0) for b in (1, 3, 4, 9)
    }
    profile = fit_profile(grid, BINDING, (1, 2, 4, 8), "here", is_model=False).profile
    assert profile.captured_tokens == (1, 2, 4, 8)
    assert profile.verify_tokens == (1, 2, 4, 8, 9, 18)
    assert profile.verify_s[2] == pytest.approx(0.004)  # 3 and 4 tokens run in one graph: one median


def test_an_untimed_drafter_leaves_tables_empty_rather_than_wrong() -> None:
    grid = {(b, k): rounds(b, k, 0.01, draft_s=None) for b in (1, 2) for k in (0, 1)}
    fitted = fit_profile(grid, BINDING, (), "here", is_model=False)
    assert fitted.profile.verify_tokens == ()
    assert fitted.profile.draft_s is None
    assert "the drafter was not timed" in fitted.remarks[0]


def test_acceptance_is_unconditional_and_of_the_deepest_k() -> None:
    deep = step(10, 2, reached_by_position=(10, 8), accepted_by_position=(8, 6))
    shallow = step(10, 1, reached_by_position=(10,), accepted_by_position=(1,))
    grid = {(10, 1): [[shallow] * 5], (10, 2): [[deep] * 5]}
    assert fit_profile(grid, BINDING, (), "here", is_model=False).profile.acceptance == pytest.approx(
        (0.8, 0.6)
    )


def test_a_point_with_too_few_steps_is_refused() -> None:
    grid = {(1, 0): rounds(1, 0, 0.01), (64, 0): [[step(64, 0)] * 2, [step(64, 0)] * 2]}
    with pytest.raises(TooFewSteps, match=r"batch 64 at K=0: 4 steady steps, 5 are needed"):
        fit_profile(grid, BINDING, (), "here", is_model=False)
