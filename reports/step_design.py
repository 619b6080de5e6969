"""What a step's time is made of: counts of each record, one column a named constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from governors.telemetry import StepRecord

Array = NDArray[np.float64]
MOST_UNTIMED = 0.2  # share of the drafting steps
KNEE = "knee_token_s"
MODES = ("full", "piecewise", "none", "unknown")


@dataclass(frozen=True, slots=True)
class Column:
    """A constant: seconds for each of what it counts. `most_s`: no engine costs more (seconds)."""

    name: str
    counts: str
    most_s: float
    drafter: bool = False


TARGET = (
    *(Column(f"overhead_{mode}_s", f"a step in graph mode {mode}", 10.0) for mode in MODES),
    Column("verify_s", "steps that verify drafts", 10.0),
    Column("token_s", "tokens of the target", 0.1),
    Column(KNEE, "tokens beyond the knee", 0.1),
    Column("kv_block_s", "KV blocks in use", 0.01),
    Column("request_s", "decoding requests", 1.0),
)
DRAFTER = (
    Column("draft_forward_s", "passes of the drafter", 1.0, drafter=True),
    Column("draft_token_s", "tokens of the drafter", 0.1, drafter=True),
)
COLUMNS = (*TARGET, *DRAFTER)


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Rows: a step each; with a timed drafter its share of each step follows as a second row.

    matrix (rows, columns); target, scale (rows,): seconds, and what errors are relative to; `usable`: rows
    with something to explain
    """

    columns: tuple[Column, ...]
    matrix: Array
    target: Array
    scale: Array
    usable: NDArray[np.bool_]
    equations: int
    drafter_timed: bool

    def whole(self, kept: Sequence[int], seconds: Array) -> Array:
        """Predicted seconds of each whole step from the constants of the columns `kept`."""
        parts = self.matrix[:, list(kept)] @ seconds
        return np.asarray(parts.reshape(self.equations, -1).sum(axis=0))


def timed(records: Sequence[StepRecord]) -> list[StepRecord]:
    """Without the steps whose drafter was not timed, if nearly all others were; else all of them."""
    known = [record for record in records if _draft_s(record) is not None]
    drafting = sum(record.depth_executed > 0 for record in records)
    lost = len(records) - len(known)
    return known if lost < MOST_UNTIMED * max(1, drafting) else list(records)


def design(records: Sequence[StepRecord], *, block_drafter: bool, knee: int | None = None) -> Design:
    """`records`: decoding steps without prompts.

    `block_drafter`: one pass proposes all drafts (DFlash and kin); otherwise a pass a draft.
    `knee`: tokens from which a step is bound by arithmetic, so that each further one costs more (roofline);
    None = nowhere.
    """
    counts = np.array([_counts(record, block_drafter, knee) for record in records], dtype=np.float64)
    step_s = np.array([record.step_s for record in records], dtype=np.float64)
    drafted = [_draft_s(record) for record in records]
    timed = all(seconds is not None for seconds in drafted) and any(drafted)
    if not timed:
        usable = np.ones(len(records), dtype=np.bool_)
        return Design(COLUMNS, counts, step_s, step_s, usable, 1, False)
    draft_s = np.array(drafted, dtype=np.float64)
    rest_s = np.maximum(step_s - draft_s, 0.0)
    own = np.array([column.drafter for column in COLUMNS])
    matrix = np.concatenate([np.where(own, 0.0, counts), np.where(own, counts, 0.0)])
    target = np.concatenate([rest_s, draft_s])
    return Design(COLUMNS, matrix, target, np.where(target > 0, target, 1.0), target > 0, 2, True)


def _draft_s(record: StepRecord) -> float | None:
    """The drafter's share; known to be 0 when nothing was drafted."""
    if record.depth_executed == 0 and record.draft_s is None:
        return 0.0
    if record.draft_s is None or not math.isfinite(record.draft_s) or record.draft_s < 0:
        return None
    return record.draft_s


def _counts(record: StepRecord, block_drafter: bool, knee: int | None) -> list[float]:
    requests, tokens = record.batch, record.batch + record.verified
    free, total = record.kv_blocks_free, record.kv_blocks_total
    blocks = 0 if free is None or total is None else total - free
    depth = record.depth_executed
    passes = min(depth, 1) if block_drafter else depth
    draft_tokens = 0
    if depth:
        draft_tokens = requests * depth if block_drafter else tokens + (depth - 1) * requests
    mode = record.graph_mode if record.graph_mode in MODES else "unknown"
    verifies = float(record.verified > 0)
    return [
        *(float(mode == each) for each in MODES),
        verifies,
        tokens,
        0 if knee is None else max(0, tokens - knee),
        blocks,
        requests,
        passes,
        draft_tokens,
    ]
