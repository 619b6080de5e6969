"""Governors switched in a running vLLM under load; what is refused; what the step records say."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from engines.contract import Endpoint, EngineError, EngineRequest
from governors.telemetry import StepRecord
from loadgen.counters import EngineCounters, counters_between, read_metrics
from loadgen.journal import read_steps
from tests.vllm.live import LiveVllm, ask

STREAMS = 4
UNDER_WAY = 2  # steps that had begun when the governor changed, and end in the new journal


async def counters(session: aiohttp.ClientSession, endpoint: Endpoint) -> EngineCounters:
    async with session.get(f"{endpoint.base_url}/metrics") as answer:
        return read_metrics(await answer.text()).counters


def steps_of(path: Path) -> list[StepRecord]:
    records, torn = read_steps(path)
    assert torn is None
    return records


async def some_steps(arm: EngineRequest) -> None:
    """Until the arm's journal shows that it has been in force for a while."""
    assert arm.steps_path is not None
    for _ in range(600):
        if arm.steps_path.exists() and len(read_steps(arm.steps_path)[0]) > 3 * UNDER_WAY:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no steps of {arm.arm} in half a minute")


def test_a_switch_under_load_loses_no_request_and_takes_hold_between_steps(
    live: LiveVllm, tmp_path: Path
) -> None:
    arms = [
        EngineRequest("k4", "fixed", {"depth": 4}, steps_path=tmp_path / "k4.jsonl"),
        EngineRequest("k0", "fixed", {"depth": 0}, steps_path=tmp_path / "k0.jsonl"),
        EngineRequest("k2", "schedule", {"schedule": [[1, 512, 2]]}, steps_path=tmp_path / "k2.jsonl"),
    ]

    async def load() -> list[int]:
        async with live.engine.serve(arms[0]) as endpoint:
            streams = [
                asyncio.create_task(ask(endpoint, f"stream {number} begins", 240))
                for number in range(STREAMS)
            ]
            switch = next(item.switch for kind, item in live.engine.running.items() if kind.armed)
            await some_steps(arms[0])
            for arm in arms[1:]:
                await switch.to(arm.governor, arm.options, None, arm.steps_path)
                await some_steps(arm)
            return await asyncio.gather(*streams)

    assert live.run(load()) == [240] * STREAMS
    for arm, before, depth in zip(arms, (4, 4, 0), (4, 0, 2), strict=True):
        assert arm.steps_path is not None
        chosen = [step.depth_chosen for step in steps_of(arm.steps_path) if step.batch]
        assert len(chosen) > UNDER_WAY, f"no step while {arm.arm} was in force"
        assert set(chosen[:UNDER_WAY]) <= {before, depth}
        assert set(chosen[UNDER_WAY:]) == {depth}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (EngineRequest("x", "fixed", {"depth": 9}), "depth"),
        (EngineRequest("x", "nobody"), "unknown governor 'nobody'"),
    ],
)
def test_what_cannot_be_is_refused_before_it_reaches_the_server(
    live: LiveVllm, request_: EngineRequest, words: str
) -> None:
    async def attempt() -> None:
        async with live.engine.serve(request_):
            pytest.fail("it was served")

    with pytest.raises(ValueError, match=words):
        live.run(attempt())


def test_a_governor_that_the_plugin_refuses_leaves_the_server_as_it_was(live: LiveVllm) -> None:
    async def attempt() -> int:
        async with live.engine.serve(EngineRequest("k2", "fixed", {"depth": 2})) as endpoint:
            switch = next(item.switch for kind, item in live.engine.running.items() if kind.armed)
            with pytest.raises(
                EngineError, match=r"vLLM refuses governor 'off': .* server without a drafter"
            ):
                await switch.to("off", {}, None, None)
            return await ask(endpoint, "and on it goes", 8)

    assert live.run(attempt()) == 8


def test_step_records_agree_with_the_engine_s_own_counters(live: LiveVllm, tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"

    async def run() -> EngineCounters:
        arm = EngineRequest("k3", "fixed", {"depth": 3}, steps_path=path)
        async with live.engine.serve(arm) as endpoint, aiohttp.ClientSession() as session:
            before = await counters(session, endpoint)
            await asyncio.gather(*(ask(endpoint, f"number {n}", 60) for n in range(STREAMS)))
            return counters_between(before, await counters(session, endpoint))

    counted, steps = live.run(run()), steps_of(path)
    assert sum(step.accepted for step in steps) == counted.accepted_tokens
    assert sum(step.verified for step in steps) == counted.draft_tokens
    by_position = [sum(step.accepted_by_position[at] for step in steps) for at in range(3)]
    assert by_position == list(counted.accepted_by_position or ())[:3]
    for step in steps:
        if step.batch:
            assert step.accepted_by_request is not None
            assert sum(step.accepted_by_request) == step.accepted
            assert len(step.accepted_by_request) == step.batch


def test_step_records_say_where_the_time_went(live: LiveVllm, tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"

    async def run() -> None:
        arm = EngineRequest("k4", "fixed", {"depth": 4}, steps_path=path)
        async with live.engine.serve(arm) as endpoint:
            await ask(endpoint, "one stream alone", 80)

    live.run(run())
    steady = [step for step in steps_of(path) if step.batch and step.depth_executed == 4]
    assert len(steady) > 10
    timed = [step for step in steady if step.target_s and step.draft_s and step.step_s]
    assert len(timed) > 0.8 * len(steady)
    for step in timed:
        assert step.target_s is not None
        assert step.draft_s is not None
        assert step.step_s is not None
        assert 0 < step.target_s + step.draft_s <= step.end_s - step.start_s + 1e-3
    assert {step.graph_mode for step in steady} == {"none"}  # eager
    assert all(step.kv_blocks_free is not None for step in steady)
