"""How many drafts were accepted: by traffic class and by draft position, for each arm and concurrency."""

from __future__ import annotations

from collections.abc import Mapping

from reports.formats import UNKNOWN, percent
from reports.judgement import CellFigures
from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.sections.blocks import absent, arm_label, card, note, scroller, value

NO_DRAFTS = "no drafts were verified here, or the engine did not count them"


def acceptance_section(part: PagePart) -> Markup:
    """One shaded table; arms that never drafted are named below it, not shown as zero."""
    rows = [row for arm in part.arms for row in _arm_rows(part, arm)]
    silent = [arm for arm in part.arms if not _drafted(part.cells_of(arm))]
    unseen = note("Nothing drafted, or not counted: ", ", ".join(silent), ".") if silent else None
    if not rows:
        return card(part, "acceptance", "Acceptance", absent("No arm has a known acceptance."), unseen)
    head = tag("tr", tag("th", "arm", scope="col"), tag("th", "of", scope="col"), _concurrency_heads(part))
    inner = tag("table", tag("thead", head), tag("tbody", rows), class_="heat")
    explained = note(
        "By class: tokens a step with the bonus token, 1.00 is nothing accepted (counted from chunks, for "
        "servers that send one a step). By position: accepted there over all drafts, unconditional. "
        "A dash is unknown, not zero."
    )
    title = "Acceptance by class and position"
    return card(part, "acceptance", title, scroller(inner, title), unseen, explained)


def _concurrency_heads(part: PagePart) -> list[Markup]:
    return [tag("th", tag("span", "c=", class_="dim"), str(c), scope="col") for c in part.concurrencies]


def _drafted(cells: Mapping[int, CellFigures]) -> bool:
    """True if a position's rate is known, or a class has more than one token a step."""
    rates = [rate for cell in cells.values() for rate in cell.acceptance_by_position]
    lengths = [length for cell in cells.values() for length in cell.acceptance_by_class.values()]
    return any(rate is not None for rate in rates) or any(length and length > 1 for length in lengths)


def _arm_rows(part: PagePart, arm: str) -> list[Markup]:
    cells = part.cells_of(arm)
    if not _drafted(cells):
        return []
    classes = dict.fromkeys(name for cell in cells.values() for name in cell.acceptance_by_class)
    depth = max(len(cell.acceptance_by_position) for cell in cells.values())
    rows = [
        _row(
            part,
            arm,
            name,
            {c: _length(cell.acceptance_by_class.get(name), depth) for c, cell in cells.items()},
        )
        for name in classes
    ]
    return rows + [
        _row(part, arm, f"position {at + 1}", {c: _rate(cell, at) for c, cell in cells.items()})
        for at in range(depth)
    ]


Shade = tuple[str, float] | None  # what is shown, and how strongly: 0..1


def _length(length: float | None, depth: int) -> Shade:
    """An acceptance length; as strong as its share of the drafts that could have been accepted."""
    return None if length is None else (f"{length:.2f}", (length - 1) / max(depth, 1))


def _rate(cell: CellFigures, position: int) -> Shade:
    by_position = cell.acceptance_by_position
    rate = by_position[position] if position < len(by_position) else None
    return None if rate is None else (percent(rate), rate)


def _row(part: PagePart, arm: str, of: str, shades: Mapping[int, Shade]) -> Markup:
    cells = [_cell(shades.get(c)) for c in part.concurrencies]
    return tag("tr", tag("th", arm_label(part, arm), scope="row"), tag("th", of, scope="row"), cells)


def _cell(shade: Shade) -> Markup:
    if shade is None:
        return tag("td", value(UNKNOWN, NO_DRAFTS))
    text, strength = shade
    return tag("td", text, style=f"--share:{min(max(strength, 0.0), 1.0):.3f}", class_="shade")
