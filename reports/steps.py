"""Step records by cell: as columns for the judge, as K traces for the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from governors.telemetry import StepRecord
from loadgen.journal import read_step_parts
from loadgen.records import CellKey
from reports.plausible import plausible_step
from reports.run_folder import EngineLife, RunFolder, read_run
from reports.step_series import StepSeries, cell_rows, step_series, together


@dataclass(frozen=True, slots=True)
class DepthTrace:
    """K over time in one cell of one repeat: step i started `time_s[i]` after the cell's window did.

    `depth_chosen`: what the governor asked for; `depth_executed`: what the drafter ran; `batch`: decoding
    requests; `reason`: the governor's.
    """

    arm: str
    concurrency: int
    repeat: int
    time_s: tuple[float, ...]
    depth_chosen: tuple[int, ...]
    depth_executed: tuple[int, ...]
    batch: tuple[int, ...]
    reason: tuple[str, ...]


def read_cell_steps(run: RunFolder) -> tuple[dict[CellKey, StepSeries], tuple[str, ...]]:
    """Steps of every cell that has some; what is torn or missing. An engine may write none at all."""
    found: dict[CellKey, StepSeries] = {}
    said: list[str] = []
    wrote_any = any((run.path / "steps").glob("*.jsonl"))
    for arm, repeat in dict.fromkeys((key.arm, key.repeat) for key in run.cells):
        for life in run.lives(arm, repeat):
            path = run.steps_path(arm, repeat, life.since)
            series, torn = _series(path)
            if torn:
                said.append(torn)
            elif wrote_any and not len(series):
                said.append(f"steps/{path.name}: no step records, while other arms have some")
            found |= {key: series.rows(rows) for key, rows in _rows(life, series)}
    return found, tuple(said)


def _series(path: Path) -> tuple[StepSeries, str | None]:
    """As RunFolder.steps, a few thousand records at a time: a long life has millions."""
    parts: list[StepSeries] = []
    spoiled = False

    def look(records: list[StepRecord]) -> None:
        nonlocal spoiled
        spoiled = spoiled or not all(map(plausible_step, records))
        if not spoiled:  # what cannot be may not fit into a column
            parts.append(step_series(records))

    torn = read_step_parts(path, look) if path.is_file() else None
    if spoiled:
        return together(()), f"steps/{path.name}: holds times or counts that cannot be"
    return together(parts), torn and f"steps/{torn}"


def depth_traces(run_dir: Path | RunFolder) -> tuple[DepthTrace, ...]:
    """For every arm its first repeat that has ended cells: a trace for each cell that has steps."""
    run = read_run(run_dir)
    first: dict[str, int] = {}
    for key in run.cells:
        first[key.arm] = min(key.repeat, first.get(key.arm, key.repeat))
    return tuple(
        trace
        for arm, repeat in first.items()
        for life in run.lives(arm, repeat)
        for trace in _traces(life, run.steps(arm, repeat, life.since)[0])
    )


def _traces(life: EngineLife, records: list[StepRecord]) -> list[DepthTrace]:
    return [
        _trace(key, life.windows[key][0], [records[row] for row in rows])
        for key, rows in _rows(life, step_series(records))
    ]


def _rows(life: EngineLife, series: StepSeries) -> list[tuple[CellKey, list[int]]]:
    chosen = cell_rows(series, list(life.windows.values()))
    return [(key, rows.tolist()) for key, rows in zip(life.windows, chosen, strict=True) if len(rows)]


def _trace(key: CellKey, start_s: float, records: list[StepRecord]) -> DepthTrace:
    return DepthTrace(
        arm=key.arm,
        concurrency=key.concurrency,
        repeat=key.repeat,
        time_s=tuple(record.start_s - start_s for record in records),
        depth_chosen=tuple(record.depth_chosen for record in records),
        depth_executed=tuple(record.depth_executed for record in records),
        batch=tuple(record.batch for record in records),
        reason=tuple(record.reason for record in records),
    )
