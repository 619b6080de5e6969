"""What reproducers need of an engine that is not their own, and what is said where it is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reproducers.configuration import EngineConfig
from reproducers.needs import EngineFacts, unmet
from reproducers.registry import REPRODUCERS
from suites.parse import load_suite

GPU = EngineConfig(max_num_seqs=256, depths=(0, 8), capture_sizes=(1, 2, 4, 8, 16, 24, 32, 40))
CPU = replace(GPU, capture_sizes=None)


def said(name: str, facts: EngineFacts) -> str | None:
    """Of a reproducer on its own suite's load and arms."""
    reproducer = REPRODUCERS[name]
    return unmet(reproducer.needs, load_suite(reproducer.suite), facts)


def on_cpu() -> EngineFacts:
    return EngineFacts(CPU, "draft_model", step_records=True, share_armed=True, step_tokens=2048)


def test_on_a_cpu_causes_in_graphs_and_other_drafters_are_refused_and_the_rest_runs() -> None:
    refused = {name: why for name in REPRODUCERS if (why := said(name, on_cpu())) is not None}
    assert refused.keys() == {
        "bistable", "capture-ceiling", "capture-hole", "dflash-below-baseline", "piecewise-override",
        "runner-hole", "starved-streams", "suffix-below-baseline",
    }  # fmt: skip
    assert all("\n" not in why for why in refused.values())
    assert "runs without any (a CPU" in refused["bistable"]
    assert "class 'dflash', and this engine's is 'draft_model'" in refused["dflash-below-baseline"]


def test_what_a_url_cannot_give() -> None:
    refused = {name for name in REPRODUCERS if said(name, EngineFacts())}
    assert refused == {"oscillation", "prefill-burst", "withdrawn-fix"}  # they count switches of K
    assert "step records, which a URL does not give" in (said("oscillation", EngineFacts()) or "")


def test_a_lone_server_compares_with_nothing() -> None:
    assert "give a server for each arm" in (said("zero-depth-tax", EngineFacts(one_arm=True)) or "")


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("capture-ceiling", replace(GPU, depths=(0, 5)), "at most 36 tokens, 40 captured"),
        ("capture-ceiling", replace(GPU, depths=(0, 5, 6)), None),
        ("bistable", replace(GPU, max_num_seqs=40, depths=(0,)), "at most 40 tokens, 40 captured"),
        ("bistable", replace(GPU, max_num_seqs=41, depths=(0,)), None),
        ("capture-hole", GPU, "padded to the next captured size"),
        ("capture-hole", replace(GPU, padding=False), None),
        ("runner-hole", GPU, None),
        ("threshold-collapse", replace(GPU, max_num_seqs=15), "16 requests run at once, the engine takes 15"),
        ("prefill-burst", replace(GPU, max_num_seqs=19), "20 requests run at once"),
    ],
)
def test_what_the_configuration_alone_says(name: str, config: EngineConfig, words: str | None) -> None:
    why = said(name, EngineFacts(config, step_records=True))
    assert why is None if words is None else words in (why or "")


def test_arms_on_one_server_show_no_price_of_arming() -> None:
    assert "set it to false" in (said("piecewise-override", EngineFacts(GPU, share_armed=True)) or "")
    assert said("piecewise-override", EngineFacts(GPU)) is None


def test_streams_starve_where_a_step_is_short() -> None:
    config = replace(CPU, depths=(1, 7), max_num_seqs=8)
    assert said("starved-streams", EngineFacts(config, step_tokens=63)) is None
    why = said("starved-streams", EngineFacts(config, step_tokens=64))
    assert why is not None
    assert '"--max-num-batched-tokens", "16"' in why


def test_a_drafter_of_the_report_s_class_or_an_unknown_one() -> None:
    assert said("suffix-below-baseline", EngineFacts(drafter_class="suffix")) is None
    assert said("suffix-below-baseline", EngineFacts(drafter_class=None)) is None


def test_the_deepest_arm_is_within_what_the_engine_drafts() -> None:
    assert said("amplification", EngineFacts(k_max=8)) is None
    assert said("amplification", EngineFacts(k_max=None)) is None
    assert said("amplification", EngineFacts(k_max=7)) == (
        "arm 'fixed_8' drafts 8 a step, the engine at most k_max = 7; "
        "take a --profile as deep, or raise it: depthgate serve "
        """--engine-options '{"k_max": 8, "acceptance": {"by_class": {"default": [8 rates]}}}'"""
    )


def test_a_schedule_that_would_be_cut_asks_for_its_depth_and_a_policy_of_any_depth_for_none() -> None:
    suite = load_suite("amplification")
    rows = {"schedule": [[1, 4, 6], [5, 512, 0]]}
    scheduled = replace(suite.arms[0], name="s", governor="schedule", options=rows)
    follower = replace(suite.arms[0], name="d", governor="goodput_table")
    shallow = EngineFacts(k_max=4)
    assert "arm 's' drafts 6" in (unmet((), replace(suite, arms=(scheduled, follower)), shallow) or "")
    assert unmet((), replace(suite, arms=(follower,)), shallow) is None
    elsewhere = replace(scheduled, url="http://127.0.0.1:1")  # its server has it already
    assert unmet((), replace(suite, arms=(elsewhere,)), shallow) is None
