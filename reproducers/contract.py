"""A reproducer: a report from the field, the suite that would show it, the rule that says if it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reports.judgement import Interval, Judgement
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary
from reproducers.configuration import ConfigFinding, EngineConfig
from reproducers.needs import Need
from suites.model import Suite


@dataclass(frozen=True, slots=True)
class Published:
    """The report's own figure on the scale of ours: `low` to `high`, alike where it states one.

    `of`: what it is and how it follows from the report's numbers, e.g. "24-157 over 232 tok/s".
    """

    low: float
    high: float
    of: str


@dataclass(frozen=True, slots=True)
class Expected:
    """Where the embedded engine's figure (`ReproductionSummary.ratio`, its point) falls, declared before the
    first run from what was measured or published elsewhere."""

    low: float
    high: float

    def holds(self, figure: Interval | None) -> bool:
        """False for an unknown figure."""
        return figure is not None and self.low <= figure.point <= self.high


@dataclass(frozen=True, slots=True)
class Control:
    """The same run with the cause removed: the same rule must then say not-reproduced.

    `says`: what was removed, in words; `change`: pure, the suite in, the control's suite out
    (`reproducers.changes` has the usual ones).
    """

    says: str
    change: Callable[[Suite], Suite]


@dataclass(frozen=True, slots=True)
class Reproducer:
    """One collapse: the suite that shows it, and the rule by which a judged run is taken for it.

    suite      a bundled suite's name; subject: its arm that shows the fault
    assess     pure: a judged run in, the verdict and its evidence out
    report     the thread, as project#number
    symptom    one sentence: what was seen
    trigger    one sentence: what brings it about
    published  the figures of the report, in its own units; published_figure: the one that compares with
               ours, None where the report states none on our scale
    penalties  switches of the embedded engine that it needs, by name
    config_check  what the configuration alone says, before any load; None: it says nothing
    needs      what an engine that is not the suite's own must have for a run to mean anything
    """

    name: str
    report: str
    symptom: str
    trigger: str
    published: str
    published_figure: Published | None
    penalties: tuple[str, ...]
    suite: str
    subject: str
    assess: Callable[[Judgement, Throughputs], ReproductionSummary]
    control: Control
    expected: Expected
    config_check: Callable[[EngineConfig], tuple[ConfigFinding, ...]] | None = None
    needs: tuple[Need, ...] = ()
