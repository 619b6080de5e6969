"""One figure of a table, and the CSV that holds them: read strictly, for a fit takes any number."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engines.embedded.schema import nearest
from governors.profile import ProfileError

QUANTITIES = ("step_s", "trimmed_step_s", "target_s", "draft_s", "tokens_per_s", "ratio")
MOST = 1_000_000  # requests, drafts or tokens of a cell


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure. `quantity`: step_s | trimmed_step_s | target_s | draft_s | tokens_per_s | ratio (to off).

    `depth`, `context_tokens` None: the arm's, the profile's. `tokens`: verified of each request, of
    trimmed_step_s (a whole step, its drafter at full depth) and target_s (a step without its drafter).
    `noise`: standard error of the figure (log) over repeats; None = not published.
    """

    quantity: str
    arm: str
    batch: int
    value: float
    depth: int | None = None
    context_tokens: int | None = None
    tokens: int | None = None
    noise: float | None = None


def read_cells(path: Path) -> tuple[Cell, ...]:
    """ProfileError names the file, the row (1: below the header) and what is wrong with it."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            cells = tuple(
                _cell(f"{path.name}: row {number}", row)
                for number, row in enumerate(csv.DictReader(file), start=1)
            )
    except (UnicodeDecodeError, csv.Error) as error:
        raise ProfileError(f"{path.name}: no CSV ({error}); write it as text") from None
    if not cells:
        raise ProfileError(f"{path.name}: holds no figure; write one a row")
    return cells


def _cell(where: str, row: Mapping[str, str]) -> Cell:
    try:
        cell = Cell(
            quantity=row["quantity"],
            arm=row["arm"],
            batch=int(row["batch"]),
            value=float(row["value"]),
            depth=_whole(row["depth"]),
            context_tokens=_whole(row["context_tokens"]),
            tokens=_whole(row["tokens"]),
            noise=float(row["noise"]) if row["noise"] else None,
        )
    except KeyError as error:
        raise ProfileError(f"{where}: no column {error}; add it to the header") from None
    except (TypeError, ValueError) as error:
        raise ProfileError(f"{where}: {error}; write a figure a column") from None
    if cell.quantity not in QUANTITIES:
        raise ProfileError(f"{where}: quantity {cell.quantity!r}: {nearest(cell.quantity, QUANTITIES)}")
    if not 0 < cell.value < math.inf:
        raise ProfileError(f"{where}: value = {cell.value:g}: must be above 0 and finite")
    if cell.noise is not None and not 0 <= cell.noise < math.inf:
        raise ProfileError(f"{where}: noise = {cell.noise:g}: must be 0 or more; leave it empty if unknown")
    counts = (cell.batch, (cell.depth or 0) + 1, (cell.context_tokens or 0) + 1, (cell.tokens or 0) + 1)
    if not 1 <= min(counts) <= max(counts) <= MOST:
        raise ProfileError(f"{where}: batch, depth, context_tokens or tokens is below 0 or above {MOST}")
    return cell


def _whole(text: str) -> int | None:
    return int(text) if text else None
