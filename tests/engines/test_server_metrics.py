"""/metrics against what clients counted; and the step journal against both."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from governors.contract import DepthDecision, StepObservation, StepOutcome
from governors.entry import GovernorEntry
from governors.registry import GOVERNORS
from tests.engines.serving import chat, serving, until

pytestmark = pytest.mark.http

CHAT = "/v1/chat/completions"
VLLM_NAMES = {
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:num_preemptions_total",
}


def test_counters_agree_with_what_clients_counted_and_with_the_journal(tmp_path: Path) -> None:
    steps = tmp_path / "steps.jsonl"

    async def ask() -> tuple[int, dict[str, float]]:
        async with serving("fixed", {"depth": 2}, steps=steps) as served:
            bodies = [chat(f"prompt {i} {'x' * i}", max_tokens=20 + i) for i in range(6)]
            streams = await asyncio.gather(*(served.events(CHAT, body) for body in bodies))
            tokens = sum(
                len(c["delta"].get("content", "").split()) for s in streams for e in s for c in e["choices"]
            )
            return tokens, await served.metrics()

    tokens, metrics = asyncio.run(ask())
    assert metrics.keys() >= VLLM_NAMES
    assert tokens == sum(20 + i for i in range(6)) == metrics["vllm:generation_tokens_total"]
    assert metrics["vllm:prompt_tokens_total"] == sum(-(-(9 + i) // 4) for i in range(6))
    assert metrics["vllm:request_success_total[length]"] == 6
    accepted = metrics["vllm:spec_decode_num_accepted_tokens_total"]
    by_position = [metrics[f"vllm:spec_decode_num_accepted_tokens_per_pos_total[{p}]"] for p in range(2)]
    reached = [metrics[f"depthgate:spec_decode_num_reached_tokens_per_pos_total[{p}]"] for p in range(2)]
    drafts = metrics["vllm:spec_decode_num_drafts_total"]
    assert accepted == sum(by_position) > 0
    assert 1 + accepted / drafts == pytest.approx(1 + sum(count / drafts for count in by_position))
    assert drafts == reached[0]
    assert by_position[0] == reached[1]  # K = 2: whoever passes position 0 reaches position 1
    assert metrics["vllm:num_requests_running"] == metrics["vllm:num_requests_waiting"] == 0
    assert metrics["vllm:kv_cache_usage_perc"] == 0

    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(len(rows)))
    assert len(rows) == metrics["depthgate:engine_steps_total"] == metrics["depthgate:engine_lag_count"]
    assert sum(row["emitted"] for row in rows) == tokens
    assert sum(row["accepted"] for row in rows) == accepted
    assert max(row["lag_s"] for row in rows) == metrics["depthgate:engine_lag_max_seconds"]
    assert metrics["depthgate:engine_lag_bucket[+Inf]"] == len(rows)
    modelled = sum(row["end_s"] - row["start_s"] for row in rows)
    assert metrics["depthgate:modelled_seconds_total"] == pytest.approx(modelled)


def test_metrics_before_the_first_step_say_nothing_that_is_not_known() -> None:
    async def ask() -> tuple[dict[str, float], str]:
        async with serving() as served:
            async with served.client.get("/metrics") as response:
                text = await response.text()
                assert response.content_type == "text/plain"
            return await served.metrics(), text

    metrics, text = asyncio.run(ask())
    assert "depthgate:own_overhead_ratio" not in metrics
    assert "nan" not in text.lower()
    info = [line for line in text.splitlines() if line.startswith("depthgate:model_info")]
    assert len(info) == 1
    assert info[0].startswith('depthgate:model_info{profile="h200-qwen3-4b-eagle",drafter_class="')
    assert info[0].endswith('engine="embedded engine (model)"} 1')


def test_preempted_work_is_not_counted_as_prompt_again() -> None:
    async def ask() -> dict[str, float]:
        async with serving(engine_options={"kv_blocks": 12}) as served:
            bodies = [chat("x" * 4 * 40, max_tokens=60) for _ in range(4)]
            await asyncio.gather(*(served.events(CHAT, body) for body in bodies))
            return await served.metrics()

    metrics = asyncio.run(ask())
    assert metrics["vllm:num_preemptions_total"] > 0
    assert metrics["vllm:prompt_tokens_total"] == 4 * 40
    assert metrics["vllm:generation_tokens_total"] == 4 * 60


class Broken:
    """Raises in every third decision, answers nonsense in every other third, and never learns."""

    def __init__(self) -> None:
        self.calls = 0

    def decide(self, observation: StepObservation) -> DepthDecision:
        self.calls += 1
        if self.calls % 3 == 0:
            raise RuntimeError("no idea")
        if self.calls % 3 == 1:
            return DepthDecision(windows="all", depth_next=0)  # type: ignore[arg-type]
        return DepthDecision(windows=1, depth_next=1)

    def observe(self, outcome: StepOutcome) -> None:
        raise ValueError("cannot learn")


def test_a_governor_that_raises_does_not_take_the_server_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = GovernorEntry("broken", "", "D", "ours", lambda options, context: Broken(), changes_depth=True)
    monkeypatch.setitem(GOVERNORS, "broken", entry)
    steps = tmp_path / "steps.jsonl"

    async def ask() -> tuple[int, dict[str, float], int]:
        async with serving("broken", steps=steps) as served:
            events = await served.events(CHAT, chat(max_tokens=30))
            assert served.crashes == []
            return len(events), await served.metrics(), served.assembled.profile.k_max

    _, metrics, k_max = asyncio.run(ask())
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    fallen = [row for row in rows if row["reason"] == "no-model"]
    assert metrics["depthgate:governor_errors_total"] == len(rows) + len(fallen)
    assert {row["depth_executed"] for row in fallen} == {k_max}
    assert len(fallen) > 1
    assert "governor broken failed" in caplog.text


def test_a_fault_of_the_engine_itself_is_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        async with serving() as served:
            stream = asyncio.create_task(served.client.post(CHAT, json=chat(max_tokens=2000, stream=True)))
            await until(lambda: served.core.totals.steps > 3)
            whole = asyncio.create_task(served.post(CHAT, chat(max_tokens=2000)))
            await until(lambda: served.core.running + served.core.waiting == 2)
            monkeypatch.setattr(served.core, "step", None)
            body = await (await stream).read()
            assert b'"error":{' in body
            assert b"[DONE]" not in body
            assert (await whole)[0] == 503
            assert served.crashes == ["crashed"]
            async with served.client.get("/health") as health:
                assert health.status == 503
            assert (await served.post(CHAT, chat()))[0] == 503

    asyncio.run(ask())
