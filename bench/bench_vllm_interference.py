"""What telemetry takes from an engine loop that never rests: `pytest bench/bench_vllm_interference.py -s`.

The loop does Python work of a fixed size between steps (as a launch-bound vLLM does) and the gate's four
calls at B=256, with the journal off and on in the order 0 1 1 0 1 0. The journal's thread writes beside the
loop: what it costs is not only time but every hand-over of the GIL, which shows in the ratio alone.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

import bench.bench_vllm_step as step_bench
from governors.vllm_gate import Gate

ORDER = (0, 1, 1, 0, 1, 0)
PASSES, STEPS, WORK = 8, 120, 60_000


def work() -> int:
    total = 0
    for number in range(WORK):
        total += number
    return total


def drive(telemetry: bool, path: Path) -> float:
    """Seconds of STEPS steps and the work between them."""
    settings = replace(step_bench.POLICIES["fixed"], telemetry=telemetry)
    recorded = step_bench.Recorded()
    gate = Gate(step_bench.FACTS, settings, print)
    gate.journal.switch(path if telemetry else None)
    results = cycle([recorded.result(number) for number in range(16)])
    begin_s = time.perf_counter()
    for _ in range(STEPS):
        output = recorded.output()
        gate.begin()
        gate.decide(recorded, output)
        work()
        gate.deliver(recorded, gate.receive(recorded, output, next(results)), lambda: step_bench.BATCH)
    seconds = time.perf_counter() - begin_s
    gate.close()
    return seconds


def test_telemetry_on_over_off(benchmark: Any, tmp_path: Path) -> None:
    logs: list[float] = []

    def once() -> None:
        spans = [drive(bool(on), tmp_path / "steps.jsonl") for on in ORDER]
        for first in (0, 2, 4):
            pair = {ORDER[place]: spans[place] for place in (first, first + 1)}
            logs.append(float(np.log(pair[1] / pair[0])))

    benchmark.pedantic(once, rounds=PASSES, warmup_rounds=1)
    mean, error = float(np.mean(logs)), float(np.std(logs, ddof=1)) / len(logs) ** 0.5
    said = f"time with telemetry / without: {np.exp(mean):.4f} +- {2 * error:.4f} ({len(logs)} pairs)"
    benchmark.extra_info["ratio"] = said
    print("\n" + said)
