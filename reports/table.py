"""A run on the terminal: the table of cells, the verdict in words, and the consoles they go to."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reports.formats import METRIC_FORMATS, RULING_MARKS, cell_point, cell_text, percent, ratio_interval
from reports.judgement import CellFigures, Judgement, Ruling
from reports.markup import showable
from reports.progress import RunProgress
from reports.reproduction import ReproductionSummary
from reports.rulings import headline_matter, worst_rulings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "RunProgress",
    "print_cells",
    "print_verdicts",
    "render_verdict_text",
    "stderr_console",
    "stdout_console",
]

STYLES = {
    Ruling.KEPT: "green",
    Ruling.BROKEN: "bold red",
    Ruling.INCONCLUSIVE: "yellow",
    Ruling.INVALID: "magenta",
}
# From this width on the table has E2E and acceptance too.
WIDE = 120
NARROWEST, USUAL = 20, 80  # narrower is no terminal but a wrong COLUMNS
_NUMBER = re.compile(r"\d[\d.,]*")


def stdout_console() -> Console:
    """Colours on a terminal, plain text in a pipe; a terminal that lacks a character shows `?` for it."""
    return _console(stderr=False, quiet=False)


def stderr_console(*, quiet: bool = False) -> Console:
    """For progress, so that stdout stays a script's."""
    return _console(stderr=True, quiet=quiet)


def _console(*, stderr: bool, quiet: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    console = Console(stderr=stderr, quiet=quiet, highlight=False)
    if console.width < NARROWEST:  # COLUMNS=0
        console.width = USUAL
    return console


def print_cells(judgement: Judgement, console: Console | None = None) -> None:
    """One row a cell, the baseline first; below it what is invalid, noted or missing. Fits 80 columns."""
    from rich.text import Text

    out = console or stdout_console()
    if judgement.is_model:
        strip = (
            f"Embedded engine: a model, profile {judgement.profile or 'not known'}, {judgement.clock} clock."
        )
        out.print(Text(showable(strip), style="cyan"))
    if judgement.cells:
        out.print(_table(judgement, wide=out.width >= WIDE))
    else:
        out.print("No cell was measured.")
    for line in _remarks(judgement.cells):
        out.print(_text(line))
    for missing in judgement.partial:
        out.print(Text(showable(f"partial: {missing}"), style="yellow"))


def print_verdicts(judgement: Judgement, console: Console | None = None) -> None:
    """A line for each budget check that was not kept, then the verdict in words."""
    from rich.text import Text

    out = console or stdout_console()
    for verdict in judgement.verdicts:
        if verdict.ruling is not Ruling.KEPT:
            line = f"{RULING_MARKS[verdict.ruling]} {verdict.ruling.value}: {verdict.sentence}"
            out.print(Text(showable(line), style=STYLES[verdict.ruling]))
    out.print(Text(render_verdict_text(judgement)))


def render_verdict_text(verdict: Judgement | ReproductionSummary) -> str:
    """The verdict as one paragraph of plain text."""
    if isinstance(verdict, ReproductionSummary):
        return showable(_reproduction_text(verdict))
    return showable(_judgement_text(verdict))


def _judgement_text(judgement: Judgement) -> str:
    kept = sum(verdict.ruling is Ruling.KEPT for verdict in judgement.verdicts)
    status = "" if judgement.gated else " (exploratory: never counts as passed)"
    budgets = (
        f"{kept} of {len(judgement.verdicts)} budget checks kept." if judgement.verdicts else "No budgets."
    )
    partial = f" Partial: {'; '.join(judgement.partial)}." if judgement.partial else ""
    headline = headline_matter(judgement).rstrip(".")
    return f"{judgement.ruling.value.upper()}{status}: {headline}. {budgets}{partial} Seal: {judgement.seal}"


def _reproduction_text(summary: ReproductionSummary) -> str:
    word = summary.verdict.value.replace("-", " ").upper()
    of = f" ({summary.ratio_of})" if summary.ratio_of else ""
    figure = f"{summary.figure_is} {ratio_interval(summary.ratio) if summary.ratio else 'not known'}{of}"
    return f"{word}: {summary.report} {summary.name}, {figure}. Published: {summary.published}"


def _table(judgement: Judgement, *, wide: bool) -> Table:
    from rich import box
    from rich.table import Table

    metrics = ["ttft_p99_s", "itl_p99_s"]
    if wide:
        metrics = ["ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "e2e_p99_s", "acceptance_length"]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("arm", max_width=24 if wide else 14, overflow="fold")
    table.add_column("c", justify="right")
    table.add_column("tokens/s", justify="right")
    table.add_column(_text(f"÷ {judgement.baseline}"), justify="right", max_width=17, overflow="ellipsis")
    for metric in metrics:
        shown = METRIC_FORMATS[metric]
        table.add_column(f"{shown.label}\n{shown.unit}", justify="right")
    rulings = worst_rulings(judgement.verdicts, "tokens_per_s")
    arms = sorted({cell.arm: None for cell in judgement.cells}, key=lambda arm: arm != judgement.baseline)
    for arm in arms:
        for cell in sorted((c for c in judgement.cells if c.arm == arm), key=lambda c: c.concurrency):
            ruling = rulings.get((cell.arm, cell.concurrency))
            table.add_row(*_row(cell, metrics, ruling), style="magenta" if cell.invalid else None)
        table.add_section()
    return table


def _row(cell: CellFigures, metrics: Iterable[str], ruling: Ruling | None) -> list[Text]:
    ratio = _text(ratio_interval(cell.ratios.get("tokens_per_s")))
    if ruling is not None and not cell.invalid:
        ratio.stylize(STYLES[ruling])
    where = f"!{cell.concurrency}" if cell.invalid else str(cell.concurrency)
    points = [_text(cell_text(cell, metric).partition(" (")[0]) for metric in metrics]
    return [_text(cell.arm), _text(where), _text(cell_text(cell, "tokens_per_s")), ratio, *points]


def _text(text: str) -> Text:
    """Text of a run: no console markup, no escape sequences."""
    from rich.text import Text

    return Text(showable(text))


def _remarks(cells: Iterable[CellFigures]) -> list[str]:
    """Each kind of remark once, in its first wording, with its cells; a number makes no new kind."""
    first: dict[str, str] = {}
    where: dict[str, dict[str, None]] = {}
    for cell in cells:
        for remark in _cell_remarks(cell):
            kind = _NUMBER.sub("#", remark)
            first.setdefault(kind, remark)
            where.setdefault(kind, {})[f"{cell.arm} c={cell.concurrency}"] = None
    return [f"{first[kind]} ({_listed(list(found))})" for kind, found in where.items()]


def _cell_remarks(cell: CellFigures) -> list[str]:
    failed, refused = cell_point(cell, "failure_rate"), cell_point(cell, "refusal_rate")
    return [
        *(f"! invalid: {why}" for why in cell.invalid),
        *(f"failed requests: {percent(share)}" for share in [failed] if share),
        *(f"refused requests: {percent(share)}" for share in [refused] if share),
        *(f"note: {note}" for note in cell.notes),
    ]


def _listed(where: list[str]) -> str:
    return ", ".join(where[:4]) + (f" and {len(where) - 4} more cells" if len(where) > 4 else "")
