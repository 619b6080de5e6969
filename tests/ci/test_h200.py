"""ci/h200: plans name arms that exist, command lines say what they measure, tables are right by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ci.h200.arms import ARMS, PLANS
from ci.h200.profiles import profile_of
from ci.h200.servers import GROUPS, SERVERS, Place, command, environment, port
from ci.h200.summary import overhead_rows, ratio_rows, step_figures

PLACE = Place(Path("/repo"), Path("/work"), Path("/site"))


def test_every_plan_runs_known_arms_on_servers_of_one_group() -> None:
    for plan in PLANS.values():
        servers = {ARMS[arm].server for arm in plan.arms}
        assert any(servers <= set(group) for group in GROUPS.values()), servers


def test_ports_differ() -> None:
    assert len({port(name) for name in SERVERS}) == len(SERVERS)


def test_the_baseline_has_no_drafter_and_no_plugin() -> None:
    words = command(SERVERS["off"], PLACE)
    assert "--speculative-config" not in words
    assert "--scheduler-cls" not in words
    assert not [name for name in environment(SERVERS["off"], PLACE, {}) if name.startswith("DEPTHGATE")]


def test_armed_and_full_differ_in_schedule_and_graph_mode_alone() -> None:
    armed, full = (" ".join(command(SERVERS[name], PLACE)) for name in ("armed", "full"))
    assert "num_speculative_tokens_per_batch_size" in armed
    assert "cudagraph_mode" not in armed
    assert "num_speculative_tokens_per_batch_size" not in full
    assert '{"cudagraph_mode": "FULL"}' in full


def _step(start_s: float, batch: int, depth: int, step_s: float, prefill: int = 0) -> dict[str, Any]:
    return {
        "start_s": start_s,
        "batch": batch,
        "prefill_requests": prefill,
        "verified": batch * depth,
        "step_s": step_s,
        "draft_s": 0.001 * depth,
        "target_s": step_s / 2,
        "graph_mode": "full",
        "depth_chosen": depth,
        "depth_executed": depth,
    }


def _fit_cells() -> list[Mapping[str, Any]]:
    return [
        {
            "server": "full",
            "plan": "fit",
            "arm": f"fixed{depth}@full",
            "concurrency": 2,
            "window_start_s": 10.0 * depth,
            "window_end_s": 10.0 * depth + 10,
        }
        for depth in range(5)
    ]


def _fit_steps(per_depth: int = 5) -> Iterator[dict[str, Any]]:
    for depth in range(5):
        for number in range(per_depth):
            yield _step(10.0 * depth + number, 2, depth, 0.004 + 0.002 * depth)
        yield _step(
            10.0 * depth + 9, 2, depth, 1.0, prefill=1
        )  # a step with a prompt in it is not served decoding
        yield _step(10.0 * depth + 9, 1, depth, 2.0)  # nor is one whose batch has thinned out


def test_a_profile_holds_the_medians_of_pinned_decoding_steps() -> None:
    profile = profile_of("full", _fit_cells(), _fit_steps())
    assert profile.batches == (2,)
    assert profile.step_s[0] == pytest.approx((0.004, 0.006, 0.008, 0.010, 0.012))
    assert profile.verify_tokens == (2, 4, 6, 8, 10)
    assert profile.verify_s == pytest.approx((0.004, 0.005, 0.006, 0.007, 0.008))
    assert profile.draft_s == pytest.approx((0.004,))
    assert not profile.is_model


def test_one_slow_median_does_not_price_every_larger_count() -> None:
    steps = [*_fit_steps()]
    for step in steps:
        if step["verified"] == 2:  # K=1: 4 tokens, hit by a slow host
            step["step_s"] = 0.013
    profile = profile_of("full", _fit_cells(), iter(steps))
    # 12, 6, 7 and 8 ms become their mean; a running maximum would say 12 four times
    assert profile.verify_s == pytest.approx((0.004, 0.00825, 0.00825, 0.00825, 0.00825))


def test_a_profile_needs_five_steps_at_every_depth() -> None:
    with pytest.raises(ValueError, match="full: no load has 5 steps at every depth"):
        profile_of("full", _fit_cells(), _fit_steps(per_depth=4))


def _cell(arm: str, concurrency: int, repeat: int, tokens_per_s: float, invalid: str = "") -> dict[str, Any]:
    return {
        "plan": "sweep",
        "arm": arm,
        "concurrency": concurrency,
        "repeat": repeat,
        "tokens_per_s": tokens_per_s,
        "invalid": invalid,
    }


def test_ratios_pair_the_cells_of_a_round() -> None:
    cells = [
        *(_cell("off", 5, repeat, 100.0 * (repeat + 1)) for repeat in range(3)),  # the machine drifts
        *(_cell("k2", 5, repeat, 50.0 * (repeat + 1)) for repeat in range(3)),
        _cell("k2", 8, 0, 1.0),  # no partner
        _cell("off", 8, 0, 1.0, invalid="the client stalled"),
    ]
    rows = {(row["arm"], row["over"], row["concurrency"]): row for row in ratio_rows(cells)}
    assert rows["k2", "off", "5"] | {"plan": ""} == {
        **{"plan": "", "arm": "k2", "over": "off", "concurrency": "5", "rounds": 3},
        **{"ratio": 0.5, "low": 0.5, "high": 0.5},
    }
    assert ("k2", "off", "8") not in rows


def test_overhead_pairs_neighbours_of_the_order() -> None:
    speeds = {0: 100.0, 1: 99.0, 2: 198.0, 3: 200.0, 4: 297.0, 5: 300.0}  # off on on off on off, and a drift
    cells = [
        {"plan": "overhead", "arm": f"telemetry{on}_k0@full", "concurrency": 8}
        | {"repeat": place, "tokens_per_s": speeds[place]}
        for place, on in enumerate((0, 1, 1, 0, 1, 0))
    ]
    row, whole = overhead_rows(cells)
    assert (row["rounds"], row["ratio"], row["low"], row["high"]) == (3, 0.99, 0.99, 0.99)
    assert (whole["concurrency"], whole["rounds"], whole["ratio"]) == ("all", 3, 0.99)


def test_step_figures_take_medians_where_the_whole_load_decodes() -> None:
    steps = [
        _step(0, 4, 2, 0.010),
        _step(1, 4, 2, 0.012),
        _step(2, 3, 2, 0.5),
        _step(3, 4, 2, 0.5, prefill=1),
    ]
    steps[0]["graph_mode"] = "piecewise"
    figures = step_figures(steps, 4)
    assert figures["step_ms"] == 11.0
    assert figures["decode_steps"] == 2
    assert figures["share_full"] == 0.75
    assert figures["depth_executed_mean"] == 2.0


def test_without_a_journal_nothing_is_said_of_steps() -> None:
    assert set(step_figures([], 4).values()) == {None}
