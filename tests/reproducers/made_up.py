"""Judged runs made up cell by cell, for the rules of reproducers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadgen.records import CellKey
from reports.judgement import CellFigures, Judgement, Ruling
from reports.pooled import Throughputs

JITTER = (0.995, 1.0, 1.005)  # over three repeats


def cell(
    arm: str,
    concurrency: int,
    points: Mapping[str, float] | None = None,
    invalid: tuple[str, ...] = (),
    by_repeat: Mapping[int, dict[str, float]] | None = None,
) -> CellFigures:
    return CellFigures(
        arm, concurrency, len(JITTER), {"done": 3}, {}, {}, {}, (), None, invalid,
        points=dict(points or {}), by_repeat=dict(by_repeat or {}),
    )  # fmt: skip


def judgement(cells: Sequence[CellFigures]) -> Judgement:
    return Judgement(
        run="r", suite="s", question="q", ruling=Ruling.BROKEN, gated=True, seal="", partial=(), headline="",
        engine="e", profile=None, is_model=True, clock="virtual", baseline="off",
        cells=tuple(cells), verdicts=(),
    )  # fmt: skip


def throughputs(
    factors: Mapping[str, float], concurrencies: Sequence[int], jitter: float = 1.0
) -> Throughputs:
    """Every arm at its factor of 100 tokens/s a stream; `jitter` scales how far its repeats come apart."""
    return Throughputs(
        {
            CellKey(arm, at, repeat): 100.0 * at * factor * (1 + jitter * (shift - 1) * (arm != "off"))
            for arm, factor in factors.items()
            for at in concurrencies
            for repeat, shift in enumerate(JITTER)
        }
    )


def rates_by_width(factors: Mapping[str, Mapping[int, float]], base: str = "off") -> Throughputs:
    """Arm -> concurrency -> its factor of 100 tokens/s a stream; `base` repeats exactly."""
    return Throughputs(
        {
            CellKey(arm, at, repeat): 100.0 * at * factor * (1.0 if arm == base else shift)
            for arm, row in factors.items()
            for at, factor in row.items()
            for repeat, shift in enumerate(JITTER)
        }
    )
