"""All cells of a run as a pandas table: one row an arm and concurrency, units in the column names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reports.formats import known
from reports.judgement import CellFigures, Interval, Judgement
from reports.markup import showable

if TYPE_CHECKING:
    import pandas as pd

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def cells_frame(judgement: Judgement) -> pd.DataFrame:
    """One row per cell, sorted by arm (the baseline first) and concurrency; unknown is missing (NA).

    Columns: arm, concurrency, repeats; for each metric M (seconds, tokens/s): M, M_low, M_high and M_ratio,
    M_ratio_low, M_ratio_high (to the baseline); requests_OUTCOME; acceptance_length_class_CLASS,
    acceptance_position_P (from 1); switches_per_1k_steps; invalid, notes (sentences joined by "; ").
    """
    import pandas as pd

    order = sorted(judgement.cells, key=lambda cell: (cell.arm != judgement.baseline, cell.concurrency))
    arms = list(dict.fromkeys(cell.arm for cell in order))
    rows = [_row(cell) for cell in sorted(order, key=lambda cell: (arms.index(cell.arm), cell.concurrency))]
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["arm", "concurrency", "repeats"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.convert_dtypes() if rows else frame


def write_csv(judgement: Judgement, path: Path) -> None:
    """`cells_frame` as CSV; unknown is an empty field. Text that a spreadsheet would run is quoted."""
    frame = cells_frame(judgement)
    for column in frame.columns.intersection(["arm", "invalid", "notes"]):
        frame[column] = frame[column].map(_inert, na_action="ignore")
    frame.to_csv(path, index=False)


def _inert(text: str) -> str:
    clean = showable(text)
    return f"'{clean}" if clean.startswith(_FORMULA_STARTS) else clean


def _row(cell: CellFigures) -> dict[str, object]:
    return {
        "arm": cell.arm,
        "concurrency": cell.concurrency,
        "repeats": cell.repeats,
        **_intervals(cell.figures, ""),
        **{metric: _known(point) for metric, point in cell.points.items() if not cell.figures.get(metric)},
        **_intervals(cell.ratios, "_ratio"),
        **{f"requests_{outcome}": count for outcome, count in cell.requests.items()},
        **{
            f"acceptance_length_class_{name}": _known(share)
            for name, share in cell.acceptance_by_class.items()
        },
        **{
            f"acceptance_position_{at}": _known(s)
            for at, s in enumerate(cell.acceptance_by_position, start=1)
        },
        "switches_per_1k_steps": _known(cell.switches_per_1k_steps),
        "invalid": "; ".join(cell.invalid) or None,
        "notes": "; ".join(cell.notes) or None,
    }


def _known(value: float | None) -> float | None:
    return value if known(value) else None


def _intervals(figures: Mapping[str, Interval | None], suffix: str) -> dict[str, object]:
    columns: dict[str, object] = {}
    for metric, interval in figures.items():
        columns[f"{metric}{suffix}"] = _known(interval.point) if interval else None
        columns[f"{metric}{suffix}_low"] = _known(interval.low) if interval else None
        columns[f"{metric}{suffix}_high"] = _known(interval.high) if interval else None
    return columns
