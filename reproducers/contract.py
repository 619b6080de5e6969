"""A reproducer: a report from the field, the suite that would show it, the rule that says if it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reports.judgement import Judgement
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary


@dataclass(frozen=True, slots=True)
class Reproducer:
    """One collapse: the suite that shows it, and the rule by which a judged run is taken for it.

    suite      a bundled suite's name; subject: its arm that shows the fault
    assess     pure: a judged run in, the verdict and its evidence out
    report     the thread, as project#number
    symptom    one sentence: what was seen
    trigger    one sentence: what brings it about
    published  the figures of the report, in its own units
    penalties  switches of the embedded engine that it needs, by name
    """

    name: str
    report: str
    symptom: str
    trigger: str
    published: str
    penalties: tuple[str, ...]
    suite: str
    subject: str
    assess: Callable[[Judgement, Throughputs], ReproductionSummary]
