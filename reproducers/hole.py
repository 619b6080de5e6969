"""A hole: one width of the batch is slow while narrower and wider ones are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reports.judgement import Interval, Judgement
from reports.pooled import Throughputs, repeat_figures
from reproducers.findings import Finding, below, within

SAME: Final = 1.1  # acceptance length at the hole over that beside it: within this factor it is unchanged


def hole_depth(
    throughputs: Throughputs, arm: str, base: str, hole: Sequence[int], beside: Sequence[int]
) -> Interval | None:
    """(arm / base in the hole) / (the same beside it): `base` has no hole, so growth with c cancels."""
    return throughputs.ratio_of_ratios(arm, base, hole, beside)


def hole_findings(
    judgement: Judgement, throughputs: Throughputs, arm: str, base: str, hole: Sequence[int], bar: float
) -> tuple[Finding, ...]:
    """Below `bar` against the widths on either side, each alone; and acceptance has no part in it."""
    widths = sorted({cell.concurrency for cell in judgement.cells})
    narrower = [width for width in widths if width < min(hole)][-1:]
    wider = [width for width in widths if width > max(hole)][:1]
    acceptance = repeat_figures(judgement, "acceptance_length", throughputs.confidence)
    at = ", ".join(map(str, hole))
    return (
        *(
            below(
                f"{arm} / {base} at c={at} over the same at c={', '.join(map(str, side))}",
                hole_depth(throughputs, arm, base, hole, side),
                bar,
            )
            for side in (narrower, wider)
        ),
        within(
            f"acceptance length of {arm} at c={at} over that on either side",
            acceptance.across(arm, hole, (*narrower, *wider)),
            1 / SAME,
            SAME,
        ),
    )
