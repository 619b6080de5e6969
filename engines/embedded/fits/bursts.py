"""The measured bursts of the H200 campaigns, run through the whole embedded engine.

A burst: C requests at once, 128 prompt and 180 output tokens each. Its throughput holds the prompts and the
end of the burst too, as the measured one does; seeds stand for the campaign's rounds. Nothing is fitted here.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engines.embedded.core import CoreSpec, EngineCore
from engines.embedded.profile import EngineProfile, load_profile
from engines.embedded.roofline import RooflineCost
from engines.embedded.simulate import Arrival, simulate
from governors.contract import DepthDecision, StepObservation, StepOutcome

OUTPUT_TOKENS = 180


@dataclass(frozen=True, slots=True)
class Arm:
    """Depth up to four scheduled requests and above; a drafter; PIECEWISE, as an armed schedule forces."""

    low: int
    high: int
    speculative: bool
    piecewise: bool


ARMS = {
    "nospec": Arm(0, 0, False, False),
    "nospec_pw": Arm(0, 0, False, True),
    "zero": Arm(0, 0, True, True),
    "k1": Arm(1, 1, True, False),
    "k2": Arm(2, 2, True, False),
    "k3": Arm(3, 3, True, False),
    "k4": Arm(4, 4, True, False),
    "k2_pw": Arm(2, 2, True, True),
    "dyn": Arm(2, 0, True, True),
}


@dataclass(frozen=True, slots=True)
class _Depth:
    """Governor and traffic of one burst."""

    arm: Arm
    requests: int
    seed: int

    def decide(self, observation: StepObservation) -> DepthDecision:
        depth = self.arm.low if observation.scheduled_requests <= 4 else self.arm.high
        return DepthDecision(observation.limits.k_max, depth)

    def observe(self, outcome: StepOutcome) -> None:
        """A fixed rule learns nothing."""

    def start(self) -> Sequence[Arrival]:
        seeds = (self.seed * 1000 + index for index in range(self.requests))
        return [Arrival(0.0, i, 128, OUTPUT_TOKENS, acceptance_seed=s) for i, s in enumerate(seeds)]

    def finished(self, stream: int, now_s: float) -> Sequence[Arrival]:
        return ()


def burst_tokens_per_s(profile: EngineProfile, arm: str, requests: int, seed: int) -> float:
    """Aggregate output tokens a second of one burst in virtual time."""
    depth = _Depth(ARMS[arm], requests, seed)
    spec = CoreSpec(
        scheduler=profile.scheduler,
        acceptance=profile.acceptance,
        penalties=profile.penalties,
        k_max=max(depth.arm.low, depth.arm.high, 1),
        speculative=depth.arm.speculative,
        schedule_armed=depth.arm.piecewise,
        seed=seed,
    )
    simulation = simulate(EngineCore(spec, RooflineCost(profile, seed), depth), depth)
    return requests * OUTPUT_TOKENS / simulation.end_s


def measured_bursts(measured: Path) -> dict[tuple[str, int], list[float]]:
    """(arm, concurrency) -> tokens/s of every round of both campaigns, 4B shape."""
    found: dict[tuple[str, int], list[float]] = {}
    for name in ("points.csv", "second_points.csv"):
        with (measured / name).open(newline="") as file:
            for row in csv.DictReader(file):
                arm = row.get("arm") or row["name"]
                same = row["kind"] == "burst" and row["plen"] == "128" and row.get("model", "q4b") == "q4b"
                if same and arm in ARMS:
                    found.setdefault((arm, int(row["c"])), []).append(float(row["tok_s"]))
    return found


def geometric_mean(values: Sequence[float]) -> float:
    """exp of the mean logarithm."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def main(shared: Path) -> None:
    """Prints model and measurement of every arm and concurrency: geometric means over seeds and rounds."""
    profile = load_profile("h200-qwen3-4b-eagle")
    measured = measured_bursts(shared / "h200" / "measured")
    for arm in ARMS:
        for concurrency in sorted(c for a, c in measured if a == arm):
            modelled = geometric_mean(
                [burst_tokens_per_s(profile, arm, concurrency, seed) for seed in range(6)]
            )
            real = geometric_mean(measured[arm, concurrency])
            print(
                f"{arm:10} {concurrency:4} model {modelled:7.0f} measured {real:7.0f} {modelled / real:.2f}"
            )


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
