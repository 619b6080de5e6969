"""What judging takes for each further request of one cell: its columns and its values, never its record."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadgen.compaction import compact
from loadgen.journal import Journal
from reports.judge import judge_run
from suites.model import Budget
from tests.reports.hand_made import cell, request, suite, write_lines, write_manifest

CHUNKS = 4
REQUEST_BYTES = 400  # 120 of columns, twice while they are joined; values, counts and units of 3 gaps


def peak_bytes(folder: Path, count: int, compacted: bool) -> int:
    """Of Python's and numpy's memory; Arrow's own holds one row group whatever their number."""
    of = suite(budgets=(Budget("itl_p50_s", max_value=1.0, arms=("off",)),), repeats=1, points=(1,))
    of = replace(of, arms=of.arms[:1], load=replace(of.load, requests_per_stream=count))
    with Journal(folder / "requests/off.c1.r0.jsonl") as journal:
        for due_s in (np.arange(count) / 1000).tolist():
            journal.append(request(due_s, [due_s + 0.1 * chunk for chunk in range(CHUNKS)], [2] * CHUNKS))
    write_lines(folder / "cells.jsonl", [cell(0.0, 1.0, requests=count)])
    write_manifest(folder, of)
    if compacted:
        compact(folder / "requests/off.c1.r0.jsonl")
    tracemalloc.start()
    try:
        assert judge_run(folder).partial == ()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compacted", [False, True], ids=["journal", "parquet"])
def test_bytes_a_request(tmp_path: Path, compacted: bool) -> None:
    """As records they took 850."""
    peak_bytes(tmp_path / "warm", 10, compacted)  # imports and caches
    few, more = (peak_bytes(tmp_path / str(count), count, compacted) for count in (4096, 8192))
    assert more - few < REQUEST_BYTES * 4096
