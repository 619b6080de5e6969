"""`--engine` from words to an engine, and how a slip in it reads."""

from __future__ import annotations

import pytest

from depthgate.engine_choice import EngineChoice, engine_choice, on_engine
from depthgate.exits import UsageError
from depthgate.launch import Overrides
from suites.model import EngineSpec
from suites.parse import load_suite


def test_forms() -> None:
    assert engine_choice(None) == engine_choice("embedded") == EngineChoice()
    assert engine_choice("http://127.0.0.1:8000") == EngineChoice(url="http://127.0.0.1:8000")
    tiny = engine_choice("vllm").started
    assert tiny == engine_choice("vllm:vllm-cpu-smoke").started == load_suite("vllm-cpu-smoke").engine
    assert engine_choice('vllm:{"model": "a/b", "k_max": 3}').started == EngineSpec(
        kind="vllm", model="a/b", options={"k_max": 3}
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vlm", r"--engine vlm: not known; give embedded \| URL \| vllm"),
        ("vllm:quickstart", "that suite's engine is 'embedded'"),
        ("vllm:{oops", "not JSON"),
        ('vllm:{"k_max": 2}', 'no "model"'),
        ('vllm:{"model": "m", "env": {"HF_HUB_TOKEN": "x"}}', "--engine vllm.env.HF_HUB_TOKEN: a secret"),
    ],
)
def test_slips(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        engine_choice(text)


def test_one_k_max_for_all_and_shorter_answers_are_said() -> None:
    suite = load_suite("threshold-collapse")
    spec = EngineSpec(kind="vllm", model="m", options={"k_max": 4})
    overrides = Overrides(started=spec, k_max=8, max_tokens=48)
    changed = overrides.apply(suite)
    assert changed.engine.options["k_max"] == 8
    assert {each.max_tokens for each in changed.traffic} == {48}
    assert overrides.said()[1:] == ("k_max = 8, for all reproducers on one server", "--max-tokens 48")
    longer = Overrides(max_tokens=10_000).apply(suite)
    assert longer == suite
    with pytest.raises(UsageError, match="--max-tokens 0: must be 1 or more"):
        Overrides(max_tokens=0).apply(suite)


def test_the_baseline_needs_a_server() -> None:
    suite = load_suite("threshold-collapse")
    with pytest.raises(UsageError, match="no server for 'off', which all is compared with"):
        Overrides(arm_urls={"schedule": "http://127.0.0.1:1"}).apply(suite)


def test_a_suite_keeps_its_k_max_and_arms_on_another_engine() -> None:
    suite = load_suite("threshold-collapse")
    moved = on_engine(suite, EngineSpec(kind="vllm", model="m", options={"k_max": 4, "drafter": "d"}))
    assert moved.engine.options == {"k_max": 2, "drafter": "d"}
    assert moved.arms == suite.arms
    assert moved.drafter_class is None
    overrides = Overrides(started=moved.engine)
    assert overrides.apply(suite).engine == moved.engine
    assert overrides.said() == ("--engine vllm",)
