"""How fast virtual time runs: simulated seconds a wall second, and a step against a fixed reference loop.

    python -m pytest -q bench/bench_simulate.py

Targets: c=256 with K=7 windows per request at 50 simulated seconds a second; 9 concurrencies x 8 governors x
60 simulated seconds in 90 s on one core. All times are CPU times of this process. Machines differ, so the
bounds here are ratios to `reference_loop` (interpreter and small array calls, the mix that a step is made
of), timed beside every round; the absolute figures stand in `extra_info`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from engines.embedded.assembly import assemble
from engines.embedded.core import CoreSpec, EngineCore
from engines.embedded.profile import load_profile
from engines.embedded.roofline import RooflineCost
from engines.embedded.simulate import Arrival, Simulation, simulate
from governors.contract import DepthDecision, StepObservation, StepOutcome

pytestmark = pytest.mark.benchmark(timer=time.process_time)

CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
COLLAPSE = [[1, 4, 2], [5, 512, 0]]
SWEEP: dict[str, Mapping[str, object]] = {
    "off": {},
    "fixed": {"depth": 2},
    "disable_above": {"depth": 2, "above": 4},
    "schedule": {"schedule": COLLAPSE},
    "hysteresis_schedule": {"schedule": COLLAPSE},
    "goodput_table": {},
    "dspark": {},
    "dspark_argmax": {},
}


@dataclass
class ClosedLoop:
    """Streams that never stop: 128 prompt and 180 output tokens, as the collapse reports use."""

    streams: int
    sent: int = field(default=0)

    def start(self) -> Sequence[Arrival]:
        return [self._next(stream, 0.0) for stream in range(self.streams)]

    def finished(self, stream: int, now_s: float) -> Sequence[Arrival]:
        return [self._next(stream, now_s)]

    def _next(self, stream: int, due_s: float) -> Arrival:
        self.sent += 1
        return Arrival(due_s, stream, 128, 180, acceptance_seed=self.sent)


class RaggedWindows:
    """Draft k_max, verify a window per request: the costliest path, at the price of one array call."""

    def __init__(self, k_max: int) -> None:
        self._k_max = k_max

    def decide(self, observation: StepObservation) -> DepthDecision:
        return DepthDecision(observation.request_ids % (self._k_max + 1), self._k_max)

    def observe(self, outcome: StepOutcome) -> None:
        """Nothing to learn."""


def reference_loop() -> float:
    """CPU seconds of one round of interpreter work and small array calls; the mean of 10,000."""
    values = np.arange(256)
    total = 0
    start = time.process_time()
    for count in range(10_000):
        shifted = values + (count & 7)
        total += int(np.minimum(shifted, 128)[0])
        total += sum([count, count + 1, count + 2])
    return (time.process_time() - start) / 10_000


def ragged_core() -> EngineCore:
    profile = load_profile("h100-llama3.1-8b-eagle")
    spec = CoreSpec(
        scheduler=profile.scheduler,
        acceptance=profile.acceptance,
        penalties=profile.penalties,
        k_max=profile.k_max,
        speculative=True,
        schedule_armed=True,
    )
    return EngineCore(spec, RooflineCost(profile), RaggedWindows(profile.k_max))


def timed(benchmark: BenchmarkFixture, run: Callable[[], list[Simulation]], rounds: int) -> float:
    """Reference rounds a step, in the best of `rounds`; the absolute figures go to extra_info."""
    references: list[float] = []
    cpu_s: list[float] = []

    def measured() -> list[Simulation]:
        references.append(reference_loop())
        start = time.process_time()
        simulations = run()
        cpu_s.append(time.process_time() - start)
        return simulations

    simulations: list[Simulation] = benchmark.pedantic(measured, rounds=rounds)  # type: ignore[no-untyped-call]
    steps = sum(len(each.steps) for each in simulations)
    pairs = zip(cpu_s, references, strict=True)
    ratio, best_s, reference_s = min((cpu / steps / one, cpu, one) for cpu, one in pairs)
    benchmark.extra_info.update(
        simulated_s_per_cpu_s=round(sum(each.end_s for each in simulations) / best_s, 1),
        step_us=round(best_s / steps * 1e6, 1),
        reference_us=round(reference_s * 1e6, 2),
        steps=steps,
        reference_rounds_per_step=round(ratio, 1),
    )
    return ratio


def test_c256_with_seven_ragged_windows(benchmark: BenchmarkFixture) -> None:
    ratio = timed(benchmark, lambda: [simulate(ragged_core(), ClosedLoop(256), until_s=20.0)], rounds=3)
    assert ratio < 250


@pytest.mark.parametrize("streams", [1, 8, 64])
def test_fixed_depth(benchmark: BenchmarkFixture, streams: int) -> None:
    def run() -> list[Simulation]:
        core = assemble("gb10-qwen3.5-122b-mtp", "fixed", {"depth": 2}, {}).core
        return [simulate(core, ClosedLoop(streams), until_s=60.0)]

    ratio = timed(benchmark, run, rounds=3)
    assert ratio < 150


def test_sweep_of_every_governor_over_every_concurrency(benchmark: BenchmarkFixture) -> None:
    """The whole sweep of CI: 72 cells of 60 simulated seconds, in one round."""

    def run() -> list[Simulation]:
        return [
            simulate(
                assemble("gb10-qwen3.5-122b-mtp", name, options, {}).core, ClosedLoop(streams), until_s=60.0
            )
            for name, options in SWEEP.items()
            for streams in CONCURRENCIES
        ]

    ratio = timed(benchmark, run, rounds=1)
    assert ratio < 150
