"""Throughput that was measured on real hardware, to stand beside a profile's own: data, sources, a note."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

FOLDER = Path(__file__).parent / "measurements"


@dataclass(frozen=True, slots=True)
class MeasuredSeries:
    """Aggregate output tokens/s of one arm: concurrency -> median over rounds."""

    arm: str
    source: str
    tokens_per_s: dict[int, float]


def measured_note(profile: str | None) -> str | None:
    """One sentence about what the real hardware did; None when nothing was measured."""
    found = _sources().get(profile or "")
    return found["note"] if found else None


def measured_series(profile: str | None) -> tuple[MeasuredSeries, ...]:
    """Every measured arm of a profile, by name; empty when nothing was measured."""
    found = _sources().get(profile or "")
    if not found:
        return ()
    rounds: dict[str, dict[int, list[float]]] = {}
    with (FOLDER / f"{profile}.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            by_concurrency = rounds.setdefault(row["arm"], {})
            by_concurrency.setdefault(int(row["concurrency"]), []).append(float(row["tokens_per_s"]))
    return tuple(
        MeasuredSeries(arm, found["source"], {at: median(values) for at, values in sorted(points.items())})
        for arm, points in sorted(rounds.items())
    )


@cache
def _sources() -> dict[str, dict[str, str]]:
    with (FOLDER / "sources.toml").open("rb") as file:
        return tomllib.load(file)
