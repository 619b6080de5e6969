"""What a reproduction found: the verdict on a report from the field, and the sentences that bear it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from reports.judgement import Interval


class ReproductionVerdict(StrEnum):
    """`inconclusive`: an interval straddles its bar. `invalid`: a cell is not of its arm (machine, client,
    or a policy that was not applied)."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not-reproduced"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class ReproductionSummary:
    """The answer to "does this happen here?".

    name       the reproducer, e.g. "threshold-collapse"
    report     the thread, as project#number, e.g. "vllm#49548"
    title      one line: the symptom in words
    ratio      the figure, as a rule of the collapsed arm to `ratio_of`; None = not known
    published  the report's own figures, in its own units
    evidence   sentences a reader can check against the tables, the strongest first
    ratio_of   what the ratio divides by what, e.g. "tokens/s of schedule over fixed_2, c >= 5"
    figure_is  what `ratio` is where it is no ratio, e.g. "breaks even at c ="
    """

    name: str
    report: str
    title: str
    verdict: ReproductionVerdict
    ratio: Interval | None
    published: str
    evidence: tuple[str, ...] = ()
    ratio_of: str = ""
    figure_is: str = "ratio"
