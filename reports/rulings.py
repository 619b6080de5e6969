"""Rulings in order of weight, and the worst of each cell: what a grid or a row is coloured by."""

from __future__ import annotations

from collections.abc import Iterable

from reports.judgement import BudgetVerdict, Judgement, Ruling

WORST_FIRST = (Ruling.BROKEN, Ruling.INVALID, Ruling.INCONCLUSIVE, Ruling.KEPT)


def worst_rulings(verdicts: Iterable[BudgetVerdict], metric: str) -> dict[tuple[str, int], Ruling]:
    """(arm, concurrency) -> worst ruling over the budgets of `metric`; a cell without one is absent."""
    worst: dict[tuple[str, int], Ruling] = {}
    for verdict in verdicts:
        if verdict.metric == metric:
            where = (verdict.arm, verdict.concurrency)
            worst[where] = min(worst.get(where, Ruling.KEPT), verdict.ruling, key=WORST_FIRST.index)
    return worst


def headline_matter(judgement: Judgement) -> str:
    """The headline without its opening "Broken (partial run): ", for where the ruling stands beside it."""
    opening, colon, matter = judgement.headline.partition(": ")
    repeats = colon and opening.lower().startswith(judgement.ruling.value)
    return matter[:1].upper() + matter[1:] if repeats else judgement.headline
