"""The catalogue on the terminal: a row a reproducer, and below it what is not as it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.catalogue import Catalogue, CatalogueRow
from reports.formats import DASH, UNKNOWN, ratio, ratio_interval
from reports.markup import showable
from reports.reproduction import ReproductionVerdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDTH = 116
STYLES = {
    ReproductionVerdict.REPRODUCED: "green",
    ReproductionVerdict.NOT_REPRODUCED: "red",
    ReproductionVerdict.INCONCLUSIVE: "yellow",
    ReproductionVerdict.INVALID: "magenta",
}
CONTROL_STYLES = {
    **STYLES,
    ReproductionVerdict.REPRODUCED: "red",
    ReproductionVerdict.NOT_REPRODUCED: "green",
}


def print_catalogue(catalogue: Catalogue, console: Console) -> None:
    """The table, the evidence of rows that did not come out, and figures outside their declared interval."""
    from rich import box
    from rich.table import Table

    console.print(_text(f"{catalogue.engine}, {catalogue.clock} clock"))
    # A pipe has no width: rows stay whole there, as they do where they fit.
    width = WIDTH if console.width >= WIDTH or not console.is_terminal else None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, width=width)
    for name in ("reproducer", "report", "verdict", "control"):
        table.add_column(name, overflow="fold")
    table.add_column("published", justify="right")
    table.add_column("ours", justify="right")
    for row in catalogue.rows:
        table.add_row(*_cells(row))
    console.print(table, crop=False)
    for row in catalogue.rows:
        for line in remarks(row):
            console.print(_text(line))


def remarks(row: CatalogueRow) -> list[str]:
    """Sentences on a row that is not as it should be; none when all is."""
    said = []
    if row.verdict is not ReproductionVerdict.REPRODUCED:
        said += [f"{row.name}: {sentence}" for sentence in row.evidence]
    if row.control_verdict not in (None, ReproductionVerdict.NOT_REPRODUCED):
        said.append(f"{row.name}: its control ({row.control_says}) is {row.control_verdict}")
    if row.as_expected is False and row.expected is not None:
        low, high = map(ratio, row.expected)
        said.append(f"{row.name}: ours {ratio_interval(row.ours)} is outside the declared {low}{DASH}{high}")
    return said


def published_text(row: CatalogueRow) -> str:
    """The published figure on our scale: one number, or low to high, or a dash."""
    if row.published is None:
        return UNKNOWN
    low, high = map(ratio, row.published)
    return low if low == high else f"{low}{DASH}{high}"


def _cells(row: CatalogueRow) -> list[Text]:
    verdict = _text(str(row.verdict))
    verdict.stylize(STYLES[row.verdict])
    control = _text(str(row.control_verdict or UNKNOWN))
    if row.control_verdict is not None:
        control.stylize(CONTROL_STYLES[row.control_verdict])
    return [
        _text(row.name),
        _text(row.report),
        verdict,
        control,
        _text(published_text(row)),
        _text(ratio_interval(row.ours)),
    ]


def _text(text: str) -> Text:
    from rich.text import Text

    return Text(showable(text))
