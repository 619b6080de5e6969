"""Small stand-ins at the step machine's two seams: a cost model and governors whose every answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engines.embedded.core import CoreSpec, EngineCore
from engines.embedded.cost import StepCost, StepShape
from engines.embedded.requests import NewRequest, StepResult
from engines.embedded.specs import AcceptanceSpec, PenaltySpec, SchedulerSpec
from governors.contract import DepthDecision, Governor, GraphMode, StepObservation, StepOutcome

ALWAYS = AcceptanceSpec(by_class={"default": (1.0,)})
NEVER = AcceptanceSpec(by_class={"default": (0.0,)})


@dataclass
class UnitCost:
    """Every step takes one second; keeps the shapes that it was asked about."""

    shapes: list[StepShape] = field(default_factory=list)

    def cost(self, shape: StepShape) -> StepCost:
        self.shapes.append(shape)
        return StepCost(target_s=0.5, draft_s=0.25, step_s=1.0, graph_mode=GraphMode.FULL)


@dataclass
class LinearCost:
    """Time grows with the tokens of the step, as on hardware: a run has many distinct instants."""

    def cost(self, shape: StepShape) -> StepCost:
        target_s = 0.010 + 1e-4 * (shape.decode_tokens + shape.prefill_tokens)
        draft_s = 0.001 * shape.depth_next
        return StepCost(target_s, draft_s, target_s + draft_s, GraphMode.FULL)


@dataclass
class Script:
    """Answers depth_next from a list, its last one for ever; verifies all but at the steps of `windows`."""

    depths: Sequence[int] = (0,)
    windows: dict[int, int | list[int]] = field(default_factory=dict)
    observations: list[StepObservation] = field(default_factory=list)
    outcomes: list[StepOutcome] = field(default_factory=list)

    def decide(self, observation: StepObservation) -> DepthDecision:
        self.observations.append(observation)
        step = observation.step
        windows = self.windows.get(step, 1_000)
        depth = self.depths[min(step, len(self.depths) - 1)]
        return DepthDecision(np.array(windows) if isinstance(windows, list) else windows, depth)

    def observe(self, outcome: StepOutcome) -> None:
        self.outcomes.append(outcome)


@dataclass
class RandomWindows:
    """Any window and any depth: seeded, so that a run repeats."""

    seed: int
    slack: int = 2

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def decide(self, observation: StepObservation) -> DepthDecision:
        k_max = observation.limits.k_max
        windows = self._random.integers(-self.slack, k_max + self.slack + 1, observation.batch)
        return DepthDecision(windows, int(self._random.integers(0, k_max + 1)))

    def observe(self, outcome: StepOutcome) -> None:
        """Nothing to learn."""


def scheduler(
    seqs: int = 4, budget: int = 64, model_len: int = 256, block: int = 4, blocks: int = 256
) -> SchedulerSpec:
    return SchedulerSpec(seqs, budget, model_len, block, blocks)


def core_spec(
    scheduler_spec: SchedulerSpec | None = None,
    acceptance: AcceptanceSpec = ALWAYS,
    penalties: PenaltySpec | None = None,
    k_max: int = 0,
    speculative: bool = True,
    seed: int = 0,
) -> CoreSpec:
    return CoreSpec(
        scheduler=scheduler_spec or scheduler(),
        acceptance=acceptance,
        penalties=penalties or PenaltySpec(),
        k_max=k_max,
        speculative=speculative,
        schedule_armed=False,
        seed=seed,
    )


@dataclass
class Bench:
    """A core on the unit clock: step n starts at n seconds."""

    spec: CoreSpec
    governor: Governor = field(default_factory=Script)
    cost: UnitCost = field(default_factory=UnitCost)
    results: list[StepResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.core = EngineCore(self.spec, self.cost, self.governor)

    def submit(self, prompt: int, output: int, seed: int = 0) -> int:
        return self.core.submit(NewRequest(prompt, output, acceptance_seed=seed), float(len(self.results)))

    def step(self) -> StepResult:
        result = self.core.step(float(len(self.results)))
        assert result is not None
        self.results.append(result)
        return result

    def run(self) -> list[StepResult]:
        """Steps until nothing is left; every step after the first call, from the start."""
        while (result := self.core.step(float(len(self.results)))) is not None:
            self.results.append(result)
        return self.results


def emitted(result: StepResult) -> dict[int, int]:
    """handle -> tokens of one step."""
    return dict(zip(result.handles.tolist(), result.counts.tolist(), strict=True))
