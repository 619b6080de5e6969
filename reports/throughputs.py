"""Throughput of every valid cell and repeat of a run: what ratios over concurrencies are pooled from."""

from __future__ import annotations

from pathlib import Path

from reports.pooled import Throughputs
from reports.run_folder import CellData, RunFolder, read_run
from reports.throughput import token_spans


def read_throughputs(run_dir: Path | RunFolder) -> Throughputs:
    """Read the run folder again; empty when its suite is not known.

    A repeat with one cell that machine, client or engine lag spoiled is left out whole, every arm of it: what
    remains is paired as it was, and no arm's bad cell is picked out (docs/decisions/0018).
    """
    run = read_run(run_dir)
    if run.suite is None:
        return Throughputs({})
    mode = run.suite.load.mode
    spoiled = {key.repeat for key, cell in run.cells.items() if cell.record.invalid}
    rates = {key: _rate(cell, mode) for key, cell in run.cells.items() if key.repeat not in spoiled}
    return Throughputs({key: rate for key, rate in rates.items() if rate is not None}, run.suite.confidence)


def _rate(cell: CellData, mode: str) -> float | None:
    spans = token_spans(cell.requests, cell.record, mode)
    return spans.tokens_per_s if spans is not None else None
