"""A K trace: executed depth and batch over time, reduced to the steps where something changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from governors.telemetry import StepRecord

MAX_POINTS = 1500


@dataclass(frozen=True, slots=True)
class DepthTrace:
    """One cell of one repeat; parallel tuples over the change points, ascending in time.

    time_s     seconds since the cell's first step
    depth      drafts that the drafter really proposed (executed, not chosen)
    batch      decoding requests in the step
    reason     the governor's reason
    steps      steps that the trace stands for
    differing  decoding steps in which the executed depth was not the chosen one
    thinned    True if change points were dropped to keep the page small
    """

    arm: str
    concurrency: int
    repeat: int
    time_s: tuple[float, ...]
    depth: tuple[int, ...]
    batch: tuple[int, ...]
    reason: tuple[str, ...]
    steps: int
    differing: int
    thinned: bool = False


def depth_trace(
    arm: str, concurrency: int, repeat: int, records: Sequence[StepRecord], most: int = MAX_POINTS
) -> DepthTrace:
    """The trace of one cell's steps, in order: about `most` points at most, the last step among them."""
    states = [(record.depth_executed, record.batch, record.reason) for record in records]
    changed = [at for at, state in enumerate(states) if at == 0 or state != states[at - 1]]
    kept = changed[:: -(-len(changed) // most) or 1]
    if kept and kept[-1] != len(states) - 1:
        kept.append(len(states) - 1)
    return DepthTrace(
        arm,
        concurrency,
        repeat,
        time_s=tuple(records[at].start_s - records[0].start_s for at in kept),
        depth=tuple(states[at][0] for at in kept),
        batch=tuple(states[at][1] for at in kept),
        reason=tuple(states[at][2] for at in kept),
        steps=len(records),
        differing=sum(r.batch > 0 and r.depth_executed != r.depth_chosen for r in records),
        thinned=len(changed) > most,
    )
