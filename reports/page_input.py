"""What the page shows of one run: its judgement, and what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from reports.course import LoadCourse
from reports.judgement import CellFigures, Judgement
from reports.palette import ArmStyle
from reports.reproduction import ReproductionSummary


class DepthTrace(Protocol):
    """K over time in one cell: step i started `time_s[i]` seconds after the cell did. Tuples are parallel.

    depth_chosen: what the governor asked for; depth_executed: what the drafter ran; batch: decoding requests.
    """

    @property
    def arm(self) -> str: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def repeat(self) -> int: ...
    @property
    def time_s(self) -> tuple[float, ...]: ...
    @property
    def depth_chosen(self) -> tuple[int, ...]: ...
    @property
    def depth_executed(self) -> tuple[int, ...]: ...
    @property
    def batch(self) -> tuple[int, ...]: ...
    @property
    def reason(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class ReferenceSeries:
    """Throughput that someone measured elsewhere, shown beside the arm of the same name.

    `tokens_per_s`: concurrency -> tokens/s; `source` names hardware, engine and where the figures come from.
    """

    arm: str
    source: str
    tokens_per_s: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReportInput:
    """One run of a page; the first input is the page's own verdict, the others stand beside it.

    title        heading of the run's part of the page, empty = suite and engine
    traces       depth over time, one a cell (the first repeat is shown); empty = no step records
    commands     command lines that make this run again, one each
    model_notes  sentences about what is modelled and how far it is from measurements
    courses      how phases and open loops went, one a cell; empty = a plain load
    references   measured series to stand beside the run's own
    """

    judgement: Judgement
    reproduction: ReproductionSummary | None = None
    title: str = ""
    traces: tuple[DepthTrace, ...] = ()
    commands: tuple[str, ...] = ()
    model_notes: tuple[str, ...] = ()
    references: tuple[ReferenceSeries, ...] = ()
    courses: tuple[LoadCourse, ...] = ()


@dataclass(frozen=True, slots=True)
class PagePart:
    """What a section is rendered from. `anchor` is unique on the page; `styles`: arm -> how it is drawn."""

    run: ReportInput
    styles: Mapping[str, ArmStyle]
    anchor: str

    @property
    def judgement(self) -> Judgement:
        """Short for `run.judgement`."""
        return self.run.judgement

    @property
    def arms(self) -> tuple[str, ...]:
        """Arms with cells, the baseline first, then in order of appearance."""
        names = dict.fromkeys(cell.arm for cell in self.judgement.cells)
        return tuple(sorted(names, key=lambda name: name != self.judgement.baseline))

    @property
    def load_axis(self) -> str:
        """What C counts in this run: streams, or multiples of an open loop's rate (docs/decisions/0008)."""
        suite = self.judgement.manifest.get("suite")
        load = suite.get("load") if isinstance(suite, dict) else None
        if not isinstance(load, dict) or load.get("mode") != "open":
            return "concurrent requests"
        rate = load.get("rate_per_s")
        return (
            f"offered load, C times {rate:g} requests/s"
            if isinstance(rate, int | float)
            else "offered load, C times the trace"
        )

    @property
    def concurrencies(self) -> tuple[int, ...]:
        """Measured concurrencies, ascending."""
        return tuple(sorted({cell.concurrency for cell in self.judgement.cells}))

    def cells_of(self, arm: str) -> dict[int, CellFigures]:
        """Concurrency -> cell of one arm, ascending."""
        cells = [cell for cell in self.judgement.cells if cell.arm == arm]
        return {cell.concurrency: cell for cell in sorted(cells, key=lambda cell: cell.concurrency)}
