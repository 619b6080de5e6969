"""A reproducer's findings become its summary: the verdict they bear, and what they do without."""

from __future__ import annotations

from collections.abc import Sequence

from reports.judgement import Interval, Judgement
from reports.reproduction import ReproductionSummary
from reproducers.contract import Reproducer
from reproducers.findings import Finding, left_out, verdict


def summary(
    reproducer: Reproducer,
    judgement: Judgement,
    findings: Sequence[Finding],
    figure: Interval | None,
    figure_of: str,
    beside: Sequence[str] = (),
    figure_is: str = "ratio",
) -> ReproductionSummary:
    """`beside`: sentences that a reader should have and that decide nothing; `figure_is`: see
    ReproductionSummary."""
    return ReproductionSummary(
        name=reproducer.name,
        report=reproducer.report,
        title=reproducer.symptom,
        verdict=verdict(judgement, findings),
        ratio=figure,
        published=reproducer.published,
        evidence=(*(finding.sentence for finding in findings), *beside, *left_out(judgement)),
        ratio_of=figure_of,
        figure_is=figure_is,
    )
