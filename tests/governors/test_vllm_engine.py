"""What a server refuses to host, in words that name the mend; and what is read of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from governors.contract import DepthLimits
from governors.entry import GovernorError
from governors.registry import GOVERNORS, depths
from governors.vllm_engine import VllmFacts, captured_tokens, refuse_engine, refuse_governor, vllm_facts
from governors.vllm_seat import seat_governor

LIMITS = DepthLimits(4, 8)
ALL = (0, 4, 4, 4, 4, 3, 2, 1, 0)
SCHEDULE = {"schedule": [[1, 4, 2], [5, 512, 0]]}


def facts(**more: Any) -> VllmFacts:
    plain: dict[str, Any] = {
        "limits": LIMITS,
        "method": "eagle",
        "stock": ALL,
        "asynchronous": False,
        "runner_v2": False,
        "trims": True,
        "workers_here": True,
        "data_parallel": 1,
    }
    return VllmFacts(**(plain | more))


def refusal(name: str, options: Mapping[str, object], unarmed: bool = False, **more: Any) -> str:
    with pytest.raises(GovernorError) as caught:
        refuse_governor(name, options, facts(**more), unarmed)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_data_parallel_is_refused_because_vllm_drops_the_schedule() -> None:
    with pytest.raises(GovernorError, match=r"data_parallel_size=2: .* one server a rank"):
        refuse_engine(facts(data_parallel=2))
    refuse_engine(facts())


def test_a_diffusion_model_is_refused() -> None:
    with pytest.raises(GovernorError, match="diffusion"):
        refuse_engine(facts(diffusion=True))


@pytest.mark.parametrize("method", ["ngram_gpu", "suffix", "medusa", "mlp_speculator"])
def test_drafters_that_cannot_change_depth_are_refused_for_policies_that_do(method: str) -> None:
    said = refusal("schedule", SCHEDULE, method=method)
    assert f"drafter '{method}' always drafts 4" in said
    assert "draft_model" in said
    refuse_governor("fixed", {"depth": 4}, facts(method=method))
    refuse_governor("dspark", {}, facts(method=method))


def test_runner_v2_cuts_the_drafts_of_any_drafter() -> None:
    refuse_governor("schedule", SCHEDULE, facts(method="suffix", runner_v2=True))


def test_an_unarmed_server_is_refused_with_the_schedule_to_arm() -> None:
    said = refusal("schedule", SCHEDULE, stock=None)
    assert "may run K=0,2" in said
    assert '"num_speculative_tokens_per_batch_size": [[1, 6, 4], [7, 7, 2], [8, 8, 0]]' in said
    refuse_governor("schedule", SCHEDULE, facts(stock=None), unarmed_depth=True)


def test_a_schedule_that_lacks_a_depth_is_refused_with_the_one_to_arm() -> None:
    said = refusal("fixed", {"depth": 3}, stock=(0, 4, 4, 4, 4, 0, 0, 0, 0))
    assert "may run K=3, which the armed schedule lacks" in said
    assert "[[1, 6, 4], [7, 7, 3], [8, 8, 0]]" in said


def test_policies_that_keep_the_static_depth_need_nothing_armed() -> None:
    for name in ("fixed", "dspark", "dspark_argmax"):
        refuse_governor(name, {}, facts(stock=None))
    assert "may run K=0" in refusal("dspark", {"rest_after": 8}, stock=None)


def test_goodput_table_may_pick_any_depth() -> None:
    assert "may run K=2" in refusal("goodput_table", {}, stock=(0, *[4] * 5, 3, 1, 0))
    refuse_governor("goodput_table", {}, facts())


def test_off_is_another_server() -> None:
    assert "fixed with depth=0" in refusal("off", {})
    refuse_governor("off", {}, facts(limits=DepthLimits(0, 8), method=None, stock=None))


def test_windows_are_refused_beside_a_kv_connector() -> None:
    assert "--kv-transfer-config" in refusal("dspark", {}, trims=False)
    refuse_governor("schedule", SCHEDULE, facts(trims=False))


def test_without_a_drafter_a_schedule_has_nothing_to_change() -> None:
    seat_governor("schedule", SCHEDULE, None, facts(limits=DepthLimits(0, 8), method=None, stock=None))


def test_options_without_a_governor_are_a_mistake() -> None:
    with pytest.raises(GovernorError, match="without a governor"):
        seat_governor(None, {"depth": 2}, None, facts())


def test_every_policy_says_which_depths_it_may_pick() -> None:
    options: dict[str, Mapping[str, object]] = {
        "disable_above": {"above": 3, "depth": 2},
        "schedule": SCHEDULE,
        "hysteresis_schedule": SCHEDULE,
        "fixed": {"depth": 3},
        "cycle": {"depths": [3, 0, 0, 0]},
    }
    picks = {name: set(depths(name, options.get(name, {}), LIMITS)) for name in GOVERNORS}
    assert picks == {
        "off": {0},
        "fixed": {3},
        "disable_above": {0, 2},
        "schedule": {0, 2},
        "hysteresis_schedule": {0, 2},
        "goodput_table": {0, 1, 2, 3, 4},
        "ema_ladder": {0, 1, 3},
        "cycle": {0, 3},
        "dspark": {4},
        "dspark_argmax": {4},
    }


def test_facts_are_read_from_the_scheduler() -> None:
    mode = SimpleNamespace(name="FULL_AND_PIECEWISE")
    config = SimpleNamespace(
        parallel_config=SimpleNamespace(data_parallel_size=1, distributed_executor_backend="mp"),
        scheduler_config=SimpleNamespace(max_num_seqs=8, async_scheduling=True),
        speculative_config=SimpleNamespace(method="mtp"),
        compilation_config=SimpleNamespace(cudagraph_mode=mode, cudagraph_capture_sizes=[8, 1, 2, 4]),
    )
    scheduler = SimpleNamespace(
        vllm_config=config,
        dynamic_sd_lookup=list(ALL),
        num_spec_tokens=4,
        connector=None,
        num_sampled_tokens_per_step=1,
    )
    read = vllm_facts(scheduler)
    assert read.limits == DepthLimits(4, 8, (1, 2, 4, 8))
    assert (read.method, read.armed, read.asynchronous) == ("mtp", frozenset(range(5)), True)
    assert (read.runner_v2, read.trims, read.workers_here) == (False, True, False)


def test_no_captured_sizes_when_graphs_are_off() -> None:
    off = SimpleNamespace(cudagraph_mode=SimpleNamespace(name="NONE"), cudagraph_capture_sizes=[1, 2])
    assert captured_tokens(off) == ()
