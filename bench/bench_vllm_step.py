"""What the gate costs a vLLM step: `pytest bench/bench_vllm_step.py -s`.

One round is all that is added to a step: begin, decide (observation, policy, windows cut in the output),
receive (acceptance booked), deliver, with the journal open. Budget: under 150 us at B=256 on an idle machine,
where a step on a GPU takes 5 ms and more. `engine` less `engine-no-telemetry` is what telemetry costs.
Machines differ, so what fails here is a ratio: the median against 2,048 look-ups in a Python loop.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from bench.bench_decide import PROFILE
from governors.contract import DepthLimits
from governors.vllm_engine import VllmFacts
from governors.vllm_gate import Gate
from governors.vllm_hooks import REPORT
from governors.vllm_settings import Settings
from governors.vllm_timing import StepTimes, WorkerReport

BATCH: Final = 256
BATCHES: Final = (1, 16, 64, BATCH)
K_MAX: Final = 8
STEPS: Final = 64  # recorded outputs, gone through again and again
MOST_LOOPS: Final = 8.0  # at most 4.3 were seen, on two cores with ten times the work they could do

FACTS: Final = VllmFacts(
    limits=DepthLimits(K_MAX, BATCH, PROFILE.captured_tokens),
    method="eagle",
    stock=tuple(load % (K_MAX + 1) for load in range(BATCH + 1)),  # every K is armed
    asynchronous=True,
    runner_v2=False,
    trims=True,
    workers_here=True,
    data_parallel=1,
)
EAGLE: Final = replace(PROFILE, binding=replace(PROFILE.binding, drafter_class="eagle"))
POLICIES: Final[dict[str, Settings]] = {
    "engine": Settings(),
    "engine-no-telemetry": Settings(telemetry=False),
    "fixed": Settings("fixed", {"depth": K_MAX}),
    "schedule": Settings("schedule", {"schedule": [[1, 255, K_MAX], [256, 256, 0]]}),
    "goodput_table": Settings("goodput_table", {}, EAGLE),
    "dspark_argmax": Settings("dspark_argmax", {}, EAGLE),
}


class Recorded:
    """A scheduler that stands still: every request decodes, with K_MAX drafts in hand."""

    def __init__(self, batch: int = BATCH) -> None:
        self.ids = [f"chatcmpl-{number:032x}" for number in range(batch)]
        self.requests = {
            request_id: SimpleNamespace(num_output_placeholders=0, num_computed_tokens=300, num_tokens=301)
            for request_id in self.ids
        }
        self.finished_req_ids: set[str] = set()
        pool = SimpleNamespace(get_num_free_blocks=lambda: 900, num_gpu_blocks=1000)
        self.kv_cache_manager = SimpleNamespace(block_pool=pool)
        random = np.random.default_rng(5)
        lengths = 1 + (random.random((STEPS, batch, K_MAX)) < 0.7).cumprod(axis=2).sum(axis=2)
        self.sampled = [[[7] * int(n) for n in step] for step in lengths]

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.ids), 12

    def has_unfinished_requests(self) -> bool:
        return True

    def output(self) -> Any:
        return SimpleNamespace(
            num_scheduled_tokens=dict.fromkeys(self.ids, 1 + K_MAX),
            scheduled_spec_decode_tokens=dict.fromkeys(self.ids, [-1] * K_MAX),
            total_num_scheduled_tokens=len(self.ids) * (1 + K_MAX),
            finished_req_ids=set(),
            preempted_req_ids=None,
            num_invalid_spec_tokens=None,
            num_spec_tokens_to_schedule=K_MAX,
        )

    def result(self, number: int) -> Any:
        """In the worker's own order."""
        ids = self.ids[::-1]
        result = SimpleNamespace(
            req_ids=ids,
            req_id_to_index={request_id: place for place, request_id in enumerate(ids)},
            sampled_token_ids=self.sampled[number],
        )
        setattr(result, REPORT, WorkerReport(K_MAX, "full", (StepTimes(1, 0.004, 0.001),)))
        return result


def _loop_s() -> float:
    """Median seconds of 2,048 dict look-ups in a loop: how fast this machine runs Python now."""
    table = {number: number for number in range(2048)}
    spans = []
    for _ in range(50):
        start = time.perf_counter()
        for number in range(2048):
            table[number]
        spans.append(time.perf_counter() - start)
    return float(np.median(spans))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("policy", POLICIES)
def test_step(benchmark: Any, policy: str, batch: int, tmp_path: Path) -> None:
    settings = POLICIES[policy]
    recorded = Recorded(batch)
    gate = Gate(FACTS, settings, print)
    gate.journal.switch(tmp_path / "steps.jsonl" if settings.telemetry else None)
    steps = cycle([recorded.result(number) for number in range(STEPS)])

    def step(output: Any, result: Any) -> None:
        gate.begin()
        gate.decide(recorded, output)
        course = gate.receive(recorded, output, result)
        gate.deliver(recorded, course, lambda: batch)

    benchmark.pedantic(
        step, setup=lambda: ((recorded.output(), next(steps)), {}), rounds=1000, warmup_rounds=50
    )
    gate.close()
    assert gate.seat.faults == 0
    median_s = benchmark.stats.stats.median
    benchmark.extra_info |= {"median_us": median_s * 1e6, "loops": median_s / _loop_s()}
    print(f"\n{policy} B={batch}: median {median_s * 1e6:.0f} us, {median_s / _loop_s():.1f} loops")
    assert median_s / _loop_s() < MOST_LOOPS
