"""Measuring an engine's step costs: every K by every batch, served over HTTP, read from step records."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from engines.contract import Endpoint, Engine, EngineError, EngineRequest
from engines.registry import open_engines
from governors.profile import Binding
from governors.telemetry import StepRecord
from loadgen.cell import drive_cell
from loadgen.journal import read_steps
from loadgen.records import CellKey, CellRecord, RequestRecord
from loadgen.traffic import Prompt
from reports.step_costs import Fitted, fit_profile, steady_steps
from suites.model import Arm, EngineSpec, LoadSpec

TIMEOUT_S = 600.0
WRITTEN_S = 1.0  # engines write their step records twice a second; one that has to be killed loses the rest
STEPS_OVER = 8  # steps of a burst in which not all streams decode yet, or not any more
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ProfilingPlan:
    """`steps`: wanted at every point of a round; `words` a prompt; `hardware`: as the binding will say it.

    `rounds`: times that the whole grid is walked. Step times drift; a lone round would take that for load.
    """

    engine: EngineSpec
    depths: tuple[int, ...]
    batches: tuple[int, ...]
    words: int
    hardware: str
    steps: int = 20
    rounds: int = 3
    captured_tokens: tuple[int, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Walked:
    """One K at every batch in one round: batch -> steady steps; tokens of the prompts; who served."""

    steps: dict[int, list[StepRecord]]
    prompt_tokens: tuple[int, ...]
    endpoint: Endpoint


def arm_of(depth: int) -> Arm:
    """A constant K from a policy that could change it: the engine is armed, as for those that will."""
    return Arm(f"k{depth}", "schedule", {"schedule": [[1, 100_000, depth]]})


async def measure(plan: ProfilingPlan, say: Say) -> Fitted:
    """EngineError: the engine does not start, or keeps no step records. TooFewSteps: a point did not hold."""
    arms = tuple(map(arm_of, plan.depths))
    walks: list[tuple[int, Walked]] = []
    with tempfile.TemporaryDirectory(prefix="depthgate-profile-") as folder:
        async with open_engines(plan.engine, arms) as engines:
            for number in range(plan.rounds):
                for depth, arm in zip(plan.depths, arms, strict=True):
                    path = Path(folder) / f"{arm.name}.r{number}.jsonl"
                    walks.append((depth, await _walk(engines[arm.name], arm, depth, number, path, plan)))
                    say(f"round {number + 1} of {plan.rounds}: K={depth} at batch {_listed(plan.batches)}")
    grid = {
        (batch, depth): [walked.steps[batch] for at, walked in walks if at == depth]
        for depth in plan.depths
        for batch in plan.batches
    }
    tokens = [count for _, walked in walks for count in walked.prompt_tokens]
    endpoint = walks[0][1].endpoint
    return fit_profile(
        grid,
        Binding(
            hardware=plan.hardware,
            target_model=Path(endpoint.model).name,
            drafter_class=endpoint.drafter_class or "unknown",
            engine_version=endpoint.engine,
        ),
        plan.captured_tokens,
        source(plan, tokens, endpoint),
        is_model=endpoint.is_model,
    )


def source(plan: ProfilingPlan, prompt_tokens: Sequence[int], endpoint: Endpoint) -> str:
    """Where the numbers come from, for whoever reads the profile later."""
    held = f"prompts of {min(prompt_tokens)}-{max(prompt_tokens)} tokens" if prompt_tokens else "prompts"
    day = datetime.now(UTC).date().isoformat()
    return (
        f"depthgate profile, {day}: medians of served steps of {endpoint.engine} with a schedule armed, "
        f"{held} and up to {answer_tokens(plan.steps, plan.depths[-1])} answered"
    )


def answer_tokens(steps: int, depth: int) -> int:
    """So long that even a request whose drafts are all accepted takes `steps` steps beside the others."""
    return (steps + STEPS_OVER) * (depth + 1)


async def _walk(engine: Engine, arm: Arm, depth: int, number: int, path: Path, plan: ProfilingPlan) -> Walked:
    """Each round begins at another batch, so that a drift over the walk is not taken for load."""
    request = EngineRequest(
        arm.name,
        arm.governor,
        arm.options,
        engine_options=plan.engine.options,
        seed=number,
        steps_path=path,
    )
    shift = number % len(plan.batches)
    cells: dict[int, CellRecord] = {}
    records: list[RequestRecord] = []
    async with engine.serve(request) as endpoint:
        for batch in (*plan.batches[shift:], *plan.batches[:shift]):
            load = LoadSpec((batch,), "burst", requests_per_stream=1, warmup_requests=1, timeout_s=TIMEOUT_S)
            prompts = Words(plan.words, answer_tokens(plan.steps, depth))
            key = CellKey(arm.name, batch, 0)
            cells[batch] = await drive_cell(
                endpoint, key, load, prompts, on_record=records.append, clock=time.monotonic
            )
        await asyncio.sleep(WRITTEN_S)
    tokens = {record.prompt_tokens for record in records if record.prompt_tokens is not None}
    steps = await asyncio.to_thread(_steps, path, endpoint)
    steady = {b: steady_steps(_within(steps, cell), b, depth) for b, cell in cells.items()}
    return Walked(steady, tuple(sorted(tokens)), endpoint)


def _steps(path: Path, endpoint: Endpoint) -> list[StepRecord]:
    if not path.exists():
        raise EngineError(f"{endpoint.engine} keeps no step records; profile embedded or vllm")
    records, _ = read_steps(path)
    return records


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _within(steps: Sequence[StepRecord], cell: CellRecord) -> list[StepRecord]:
    """Steps that began inside a cell's window: engine and client read one monotonic clock."""
    return [step for step in steps if cell.window_start_s <= step.start_s < cell.window_end_s]


class Words:
    """Prompts of so many made-up words; the same for every K, no two alike."""

    def __init__(self, words: int, max_tokens: int) -> None:
        self._words = words
        self._max_tokens = max_tokens
        self.name = "words"
        self.mean_tokens = float(max_tokens)

    def part(self, name: str, weights: Mapping[str, float] | None, streams: int) -> Words:
        return self

    def stream(self, index: int) -> Iterator[Prompt]:
        turn = 0
        while True:
            rng = Random(f"{index}/{turn}")
            syllables = [a + b for a in "bdfklmnprst" for b in "aeiou"]
            text = " ".join(
                "".join(syllables[int(rng.random() * len(syllables))] for _ in range(2))
                for _ in range(self._words)
            )
            yield Prompt(text, "default", self._max_tokens, ignore_eos=True, seed=index * 1000 + turn)
            turn += 1
