"""What the worker's telemetry costs a step of vLLM: `pytest bench/bench_worker_log.py -s`.

A round is all that the hooks add to a step: begin, two stamps around the target, two around the drafter, end.
On CUDA the stamps are events on a stream that is busy, as in service; without a CUDA device they are readings
of the monotonic clock. Compare with a step: 3.4 ms for a 4B model on an H200.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from governors.contract import GraphMode
from governors.vllm_timing import CudaClock, MonotonicClock, WorkerClock, WorkerLog


def cuda_clock() -> tuple[WorkerClock, Callable[[], Any]]:
    torch = pytest.importorskip("torch", reason="times CUDA events: needs torch")
    if not torch.cuda.is_available():
        pytest.skip("times CUDA events: needs a CUDA device")
    matrix = torch.zeros((256, 256), device="cuda")
    clock = CudaClock(lambda: torch.cuda.Event(enable_timing=True), torch.cuda.current_stream)
    return clock, lambda: matrix.add_(1.0)


def cpu_clock() -> tuple[WorkerClock, Callable[[], Any]]:
    return MonotonicClock(), lambda: None


@pytest.mark.parametrize("timed", [False, True], ids=["off", "on"])
@pytest.mark.parametrize("clocks", [cpu_clock, cuda_clock], ids=["cpu", "cuda"])
def test_worker_step(
    benchmark: Any, clocks: Callable[[], tuple[WorkerClock, Callable[[], Any]]], timed: bool
) -> None:
    clock, work = clocks()
    log = WorkerLog(clock)
    reports = []

    def step() -> None:
        log.begin(timed)
        log.forward(GraphMode.FULL, work)
        log.draft(work, lambda _: 4)
        reports.append(log.end())

    benchmark.pedantic(step, rounds=2000, warmup_rounds=100)
    assert sum(len(report.times) for report in reports) > (0.9 * len(reports) if timed else -1)
    print(f"\n{benchmark.name}: median {benchmark.stats.stats.median * 1e6:.1f} us")
