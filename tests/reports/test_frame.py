"""Cells as a table: what goes in comes back out of the CSV, the unknown as an empty field."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from reports.frame import cells_frame, write_csv
from tests.reports import fake_runs


def test_one_row_a_cell_with_the_baseline_first() -> None:
    frame = cells_frame(fake_runs.judgement(baseline="schedule"))
    assert len(frame) == 21
    assert list(frame["arm"].unique()) == ["schedule", "off", "fixed_2"]
    assert list(frame["concurrency"][:7]) == list(fake_runs.CONCURRENCIES)


def test_figures_are_in_seconds_and_tokens_per_s() -> None:
    row = cells_frame(fake_runs.judgement()).iloc[0]
    assert row["tokens_per_s"] == 296
    assert row["itl_p50_s"] == pytest.approx(1 / 296)
    assert row["requests_done"] == 3


def test_unknown_is_missing_not_zero() -> None:
    frame = cells_frame(fake_runs.judgement())
    off = frame[frame["arm"] == "off"]
    assert off["acceptance_length"].isna().all()
    assert off["tokens_per_s_ratio"].isna().all()


def test_csv_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    write_csv(fake_runs.judgement(), path)
    back, frame = pd.read_csv(path), cells_frame(fake_runs.judgement())
    assert list(back.columns) == list(frame.columns)
    assert list(back["tokens_per_s"]) == pytest.approx(list(frame["tokens_per_s"]))
    text = path.read_text().lower()
    assert "nan" not in text
    assert "none" not in text


def test_csv_holds_no_formula_and_no_control_character(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    hostile = ('=HYPERLINK("http://evil.example")', "\x1b[31m")
    cells = (replace(fake_runs.judgement().cells[0], arm="@arm", notes=hostile, invalid=("-1+1",)),)
    write_csv(fake_runs.judgement(cells=cells), path)
    with path.open(newline="") as file:
        row = next(csv.DictReader(file))
    assert row["arm"] == "'@arm"
    assert row["invalid"] == "'-1+1"
    assert row["notes"] == '\'=HYPERLINK("http://evil.example"); \ufffd[31m'


def test_run_without_cells_has_a_head_only(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    write_csv(fake_runs.judgement(cells=()), path)
    assert path.read_text().splitlines() == ["arm,concurrency,repeats"]
