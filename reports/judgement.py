"""What judging a run gives: intervals, rulings and everything the tables and the page show. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Ruling(StrEnum):
    """`exit_code`s: kept 0, broken 1, inconclusive 3, invalid 4 (2 is a usage error)."""

    KEPT = "kept"
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"


EXIT_CODES = {Ruling.KEPT: 0, Ruling.BROKEN: 1, Ruling.INCONCLUSIVE: 3, Ruling.INVALID: 4}


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval with its point estimate."""

    low: float
    point: float
    high: float

    def times(self, factor: float) -> Interval:
        """All of it, multiplied by a positive number."""
        return Interval(self.low * factor, self.point * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class CellFigures:
    """One arm at one concurrency, all repeats pooled; None = unknown, never 0 and never NaN.

    `figures`: metric name -> interval; names: tokens_per_s, ttft_p50_s, ttft_p95_s, ttft_p99_s,
    itl_p50_s ...,
    chunk_gap_..., tpot_..., e2e_..., acceptance_length, verified_per_emitted, refusal_rate, failure_rate.
    `ratios`: the same names -> interval of the ratio to the baseline arm (absent for the baseline itself).
    `points`: the same names (and jain_index, peak_tokens_per_s, unapplied_share: the worst repeat's share of
    steps in which another K ran than was chosen) -> value, also where one unit shows no spread
    and `figures` therefore has None; a name is absent when its value is unknown.
    `by_repeat`: repeat -> the same names (and jain_index, switches_per_1k_steps, unapplied_share,
    acceptance_resumed and acceptance_settled as reports.starvation has them) -> that repeat's own value;
    spoiled repeats are absent (reports.pooled.repeat_figures reads them).
    """

    arm: str
    concurrency: int
    repeats: int
    requests: dict[str, int]  # outcome -> count, warm-up left out
    figures: dict[str, Interval | None]
    ratios: dict[str, Interval | None]
    acceptance_by_class: dict[str, float | None]
    acceptance_by_position: tuple[float | None, ...]
    switches_per_1k_steps: float | None
    invalid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    points: dict[str, float] = field(default_factory=dict)
    by_repeat: dict[int, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """One budget for one arm at one concurrency: the sentence is what a reader sees."""

    arm: str
    concurrency: int
    metric: str
    bound: str  # "ratio >= 0.97"
    value: Interval | None
    ruling: Ruling
    sentence: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The whole verdict on one run. `gated` False = exploratory (not sealed, or altered): never "passed"."""

    run: str
    suite: str
    question: str
    ruling: Ruling
    gated: bool
    seal: str  # one sentence: sealed at ..., or why not
    partial: tuple[str, ...]  # what is missing, empty = whole
    headline: str
    engine: str
    profile: str | None
    is_model: bool
    clock: str
    baseline: str
    cells: tuple[CellFigures, ...]
    verdicts: tuple[BudgetVerdict, ...]
    manifest: dict[str, object] = field(default_factory=dict)
