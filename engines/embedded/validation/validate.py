"""Every table: the split fitted and the rest predicted, then each fitted cell from a fit without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from engines.embedded.validation.fitting import Fit, fit, without_each
from engines.embedded.validation.prediction import OFF, Predictor
from engines.embedded.validation.table import Cell, Table, load_table, table_names

SPLIT, LEFT_OUT, FITTED = "held out by the split", "left out alone", "fitted"


@dataclass(frozen=True, slots=True)
class Prediction:
    """A cell and what was predicted for it. Units: seconds, tokens/s, or a ratio.

    noise           standard error of `measured` (log); None = not published
    role            held out by the split | left out alone | fitted (enters no total)
    gain, gain_predicted   tokens a second against no speculation; None = not in the table
    """

    table: str
    quantity: str
    arm: str
    batch: int
    depth: int | None
    context_tokens: int | None
    tokens: int | None
    measured: float
    predicted: float
    noise: float | None
    role: str
    gain: float | None
    gain_predicted: float | None

    @property
    def error(self) -> float:
        """Relative to the measured figure."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True, slots=True)
class Validated:
    """One table: its predictions, and the constants that the split's fit found."""

    table: Table
    fit: Fit
    predictions: tuple[Prediction, ...]


def validate_tables(say: Callable[[str], None] = lambda line: None) -> Iterator[Validated]:
    """In order of name; says which table it is at."""
    for name in table_names():
        say(name)
        yield validate_table(load_table(name))


def validate_table(table: Table) -> Validated:
    """Fit on the split's cells and predict the others; then those too, each left out alone, if so said."""
    cells = table.cells
    kept = [cell for cell, fitted in zip(cells, table.fitted, strict=True) if fitted]
    split = fit(table, kept)
    predictor = Predictor(table, split.values)
    rows = []
    alone = without_each(table, split.values) if table.header.leave_one_out else {}
    for index, cell in enumerate(cells):
        if not table.fitted[index]:
            rows.append(_row(table, cell, predictor, SPLIT))
        elif table.header.leave_one_out:
            rows.append(_row(table, cell, Predictor(table, alone[index]), LEFT_OUT))
        else:
            rows.append(_row(table, cell, predictor, FITTED))
    return Validated(table, split, tuple(rows))


def _row(table: Table, cell: Cell, predictor: Predictor, role: str) -> Prediction:
    gain = measured_gain(table, cell, predictor)
    return Prediction(
        table=table.name,
        quantity=cell.quantity,
        arm=cell.arm,
        batch=cell.batch,
        depth=cell.depth,
        context_tokens=cell.context_tokens,
        tokens=cell.tokens,
        measured=cell.value,
        predicted=predictor.value(cell),
        noise=cell.noise,
        role=role,
        gain=gain,
        gain_predicted=None if gain is None else predictor.gain(cell),
    )


def measured_gain(table: Table, cell: Cell, predictor: Predictor) -> float | None:
    """From the table's own figures; a step time needs the acceptance too (known, or the arm's fitted one)."""
    if table.header.arms[cell.arm].kind == OFF or cell.quantity in ("target_s", "trimmed_step_s", "draft_s"):
        return None
    if cell.quantity == "ratio":
        return cell.value
    off = _off(table, cell)
    if off is None:
        return None
    if cell.quantity == "step_s":
        return predictor.tokens_a_step(cell) * off / cell.value
    return cell.value / off


def _off(table: Table, cell: Cell) -> float | None:
    wanted: Mapping[str, object] = {
        "quantity": cell.quantity,
        "arm": table.header.arms[cell.arm].baseline,
        "batch": cell.batch,
        "context_tokens": cell.context_tokens,
    }
    same = [c.value for c in table.cells if all(getattr(c, name) == value for name, value in wanted.items())]
    return same[0] if same else None
