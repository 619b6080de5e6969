"""The headline: one sentence that an on-call engineer can act on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reports.judgement import BudgetVerdict, Ruling

OPENINGS = {
    Ruling.KEPT: "Kept",
    Ruling.BROKEN: "Broken",
    Ruling.INCONCLUSIVE: "Inconclusive",
    Ruling.INVALID: "Invalid",
}


def headline(ruling: Ruling, verdicts: Sequence[BudgetVerdict], partial: Sequence[str], gated: bool) -> str:
    """`Broken: 9 of 24 budget checks; worst: ...`; says partial and exploratory where it is so."""
    beside = ["partial run"] if partial else []
    beside += [] if gated else ["exploratory, not gated"]
    aside = f" ({', '.join(beside)})" if beside else ""
    return f"{OPENINGS[ruling]}{aside}: {_matter(ruling, verdicts, partial)}"


def _matter(ruling: Ruling, verdicts: Sequence[BudgetVerdict], partial: Sequence[str]) -> str:
    if not verdicts:
        return "the suite has no budgets, so nothing was promised"
    if ruling is Ruling.KEPT:
        return f"all {len(verdicts)} budget checks hold with their whole interval"
    named = [verdict for verdict in verdicts if verdict.ruling is ruling]
    if not named:
        return f"what was measured holds, but the run is not whole: {partial[0]}"
    worst = max(named, key=_excess)
    return f"{len(named)} of {len(verdicts)} budget checks; first to look at: {worst.sentence}"


def _excess(verdict: BudgetVerdict) -> float:
    """How far the value lies from its bound, in logs, whichever side is the bad one."""
    limit = float(verdict.bound.rsplit(" ", 1)[-1])
    value = verdict.value
    if value is None or value.point <= 0 or limit <= 0:
        return 0.0
    excess = math.log(limit / value.point)
    return excess if ">=" in verdict.bound else -excess
