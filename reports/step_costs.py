"""Step costs out of served steps: records at each batch and depth in, tables of a governors.profile out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from governors.profile import Binding, Profile
from governors.telemetry import StepRecord
from suites.grammar import counted

LEAST_STEPS = 5
HOLE = 0.1  # dearer than a larger load by more than this, round for round: a hole in the captured sizes
HOLE_ROUNDS = 3  # fewer rounds fall apart by chance

Rounds = Sequence[Sequence[float]]  # seconds, by the round in which they were measured
Grid = Mapping[tuple[int, int], Sequence[Sequence[StepRecord]]]


class TooFewSteps(ValueError):
    """A point of the grid that was not measured well enough; one line that names the mend."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """`remarks`: what was smoothed, and what was left as measured; `steps`: the fewest behind a number."""

    profile: Profile
    steps: int
    remarks: tuple[str, ...]


def steady_steps(records: Iterable[StepRecord], batch: int, depth: int) -> list[StepRecord]:
    """Steps in which nothing but `batch` requests decoded, with `depth` drafts in hand and drafted again."""
    return [
        record
        for record in records
        if record.batch == batch
        and not record.prefill_requests
        and not record.waiting
        and record.depth_in_force == record.depth_executed == depth
        and record.step_s is not None
    ]


def fit_profile(
    grid: Grid, binding: Binding, captured_tokens: Sequence[int], source: str, *, is_model: bool
) -> Fitted:
    """`grid`: (batch, depth) -> steady steps by round, for every pair. TooFewSteps: under LEAST_STEPS."""
    batches, depths = sorted({b for b, _ in grid}), sorted({k for _, k in grid})
    counts = {point: sum(map(len, rounds)) for point, rounds in grid.items()}
    for (batch, depth), count in counts.items():
        if count < LEAST_STEPS:
            raise TooFewSteps(
                f"batch {batch} at K={depth}: {counted(count, 'steady step')}, {LEAST_STEPS} are needed; "
                "does the server take that many requests at once? Lower --batches, or raise --steps"
            )
    remarks: list[str] = []
    columns = [
        rising([_steps(grid[b, k]) for b in batches], [f"batch {b} at K={k}" for b in batches], remarks)
        for k in depths
    ]
    tokens, verify_s = _verify_table(grid, captured_tokens, remarks)
    profile = Profile(
        binding=binding,
        batches=tuple(batches),
        depths=tuple(depths),
        step_s=tuple(zip(*columns, strict=True)),
        verify_tokens=tokens,
        verify_s=verify_s,
        draft_s=_draft_table(grid, batches, depths[-1], remarks),
        acceptance=_acceptance(step for b in batches for found in grid[b, depths[-1]] for step in found),
        captured_tokens=tuple(captured_tokens),
        source=source,
        is_model=is_model,
    )
    return Fitted(profile, min(counts.values()), tuple(remarks))


def rising(points: Sequence[Rounds], names: Sequence[str], remarks: list[str]) -> tuple[float, ...]:
    """Medians that never fall along the load: least squares (isotonic) over what noise turned round.

    A fall of more than HOLE between all rounds here and all there is kept as measured, and said: an engine
    may well be slower at 3 requests than at 4.
    """
    from scipy.optimize import isotonic_regression

    values = [median([second for found in rounds for second in found]) for rounds in points]
    holes = [index for index in range(len(points) - 1) if _is_hole(points, index)]
    remarks += [
        f"{names[index]}: {values[index] * 1e3:.2f} ms, in every round more than at a larger load; kept"
        for index in holes
    ]
    if holes or len(values) < 2:
        return tuple(values)
    smooth = isotonic_regression(np.array(values)).x
    moved = np.abs(smooth - np.array(values))
    worst = int(moved.argmax())
    if moved[worst] > HOLE / 10 * values[worst]:
        to = smooth[worst] * 1e3
        remarks.append(f"{names[worst]}: {values[worst] * 1e3:.2f} ms, smoothed to {to:.2f} ms")
    return tuple(float(value) for value in smooth)


def _is_hole(points: Sequence[Rounds], index: int) -> bool:
    """Some larger load's dearest round was cheaper by more than HOLE than the cheapest one here."""
    own = [median(found) for found in points[index] if found]
    return len(own) >= HOLE_ROUNDS and any(
        min(own) > (1 + HOLE) * max(median(found) for found in later if found)
        for later in points[index + 1 :]
    )


def _steps(rounds: Sequence[Sequence[StepRecord]]) -> Rounds:
    return [[step.step_s for step in found if step.step_s is not None] for found in rounds]


def _undrafted(rounds: Sequence[Sequence[StepRecord]]) -> Rounds:
    """Seconds without the drafter's share, of steps whose drafter was timed."""
    return [
        [
            max(0.0, step.step_s - step.draft_s)
            for step in found
            if step.step_s is not None and step.draft_s is not None
        ]
        for found in rounds
    ]


def _verify_table(
    grid: Grid, captured_tokens: Sequence[int], remarks: list[str]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Steps without their drafter by verified tokens; below the capture limit by the graph that they ran in.

    Empty where the drafter was not timed: what a step costs without it is not known then.
    """
    sizes: dict[int, list[list[float]]] = {}
    for (batch, depth), rounds in grid.items():
        held = sizes.setdefault(padded(batch * (depth + 1), captured_tokens), [])
        for number, found in enumerate(_undrafted(rounds)):
            held += [[] for _ in range(number + 1 - len(held))]
            held[number] += found
    kept = sorted(size for size, held in sizes.items() if sum(map(len, held)) >= LEAST_STEPS)
    if len(kept) < 2:
        remarks.append(
            "the drafter was not timed, so there is no verify table: dspark policies will not trim"
        )
        return (), ()
    return tuple(kept), rising([sizes[size] for size in kept], [f"{size} tokens" for size in kept], remarks)


def padded(tokens: int, captured_tokens: Sequence[int]) -> int:
    """The captured size in which so many tokens run; the count itself where none is as large."""
    return min((size for size in captured_tokens if size >= tokens), default=tokens)


def _draft_table(
    grid: Grid, batches: Sequence[int], k_max: int, remarks: list[str]
) -> tuple[float, ...] | None:
    """Seconds to draft k_max tokens; None unless every batch was timed."""
    timed = [
        [[step.draft_s for step in found if step.draft_s is not None] for found in grid[b, k_max]]
        for b in batches
    ]
    if any(sum(map(len, rounds)) < LEAST_STEPS for rounds in timed):
        return None
    return rising(timed, [f"drafting at batch {b}" for b in batches], remarks)


def _acceptance(steps: Iterable[StepRecord]) -> tuple[float, ...]:
    """Unconditional, by position, over the steps of the deepest K; empty when nothing was verified."""
    rows = [step for step in steps if step.reached_by_position and step.reached_by_position[0]]
    if not rows:
        return ()
    accepted = np.zeros(max(len(row.accepted_by_position) for row in rows))
    for row in rows:
        accepted[: len(row.accepted_by_position)] += row.accepted_by_position
    drafted = sum(row.reached_by_position[0] for row in rows)
    return tuple(float(share) for share in np.minimum.accumulate(accepted / drafted))
