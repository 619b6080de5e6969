"""The budgets: each promise, its interval, its ruling, and the sentence that says why."""

from __future__ import annotations

from reports.formats import DASH, UNKNOWN, known, metric_format, metric_interval
from reports.judgement import BudgetVerdict, Ruling
from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.rulings import WORST_FIRST
from reports.sections.blocks import absent, arm_label, card, chip, table, value

HEAD = ("arm", "c", "ruling", "metric", "bound", "measured", "in words")


def budgets_section(part: PagePart) -> Markup:
    """Those that are not kept first and open; the kept ones folded when there are others."""
    verdicts = sorted(part.judgement.verdicts, key=lambda v: WORST_FIRST.index(v.ruling))
    if not verdicts:
        return card(part, "budgets", "Budgets", absent("The suite has no budgets."))
    kept = [v for v in verdicts if v.ruling is Ruling.KEPT]
    others = [v for v in verdicts if v.ruling is not Ruling.KEPT]
    if not others:
        return card(part, "budgets", "Budgets", _table(part, kept))
    folded = tag("details", tag("summary", f"{len(kept)} kept"), _table(part, kept)) if kept else None
    return card(part, "budgets", "Budgets", _table(part, others), folded)


def _table(part: PagePart, verdicts: list[BudgetVerdict]) -> Markup:
    inner = table(HEAD, [_row(part, verdict) for verdict in verdicts], class_="budgets")
    return tag("div", inner, class_="tall")


def _row(part: PagePart, verdict: BudgetVerdict) -> list[Markup | str]:
    named = metric_format(verdict.metric)
    arm = arm_label(part, verdict.arm) if verdict.arm in part.styles else verdict.arm
    return [
        arm,
        str(verdict.concurrency),
        chip(verdict.ruling),
        named.label,
        verdict.bound,
        value(_measured(verdict)),
        tag("span", verdict.sentence, class_="sentence"),
    ]


def _measured(verdict: BudgetVerdict) -> str:
    """Ratios with three decimals: a bound such as 0.97 must not be rounded to."""
    interval = verdict.value
    if interval is None or not known(interval.point):
        return UNKNOWN
    if not verdict.bound.startswith("ratio"):
        return metric_interval(verdict.metric, interval)
    return f"{interval.point:.3f} ({interval.low:.3f}{DASH}{interval.high:.3f})"
