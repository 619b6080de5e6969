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
    silent = [arm for arm in part.arms if not _measured(part.cells_of(arm))]
    unseen = (
        note("No acceptance known (nothing drafted, or not counted): ", ", ".join(silent), ".")
        if silent
        else None
    )
    if not rows:
        return card(part, "acceptance", "Acceptance", absent("No arm has a known acceptance."), unseen)
    head = tag("tr", tag("th", "arm", scope="col"), tag("th", "of", scope="col"), _concurrency_heads(part))
    inner = tag("table", tag("thead", head), tag("tbody", rows), class_="heat")
    explained = note(
        "By class: accepted over verified drafts. By position: conditional, accepted at it over those that "
        "reached it. Positions beyond the depth in force cannot be observed; a dash is unknown, not zero."
    )
    return card(
        part,
        "acceptance",
        "Acceptance by class and position",
        scroller(inner, "Acceptance by class and position"),
        unseen,
        explained,
    )


def _concurrency_heads(part: PagePart) -> list[Markup]:
    return [tag("th", tag("span", "c=", class_="dim"), str(c), scope="col") for c in part.concurrencies]


def _measured(cells: Mapping[int, CellFigures]) -> bool:
    known = [
        v
        for cell in cells.values()
        for v in (*cell.acceptance_by_class.values(), *cell.acceptance_by_position)
    ]
    return any(share is not None for share in known)


def _arm_rows(part: PagePart, arm: str) -> list[Markup]:
    cells = part.cells_of(arm)
    if not _measured(cells):
        return []
    classes = dict.fromkeys(name for cell in cells.values() for name in cell.acceptance_by_class)
    depth = max(len(cell.acceptance_by_position) for cell in cells.values())
    rows = [
        _row(part, arm, name, {c: cell.acceptance_by_class.get(name) for c, cell in cells.items()})
        for name in classes
    ]
    return rows + [
        _row(part, arm, f"position {at + 1}", {c: _at(cell, at) for c, cell in cells.items()})
        for at in range(depth)
    ]


def _at(cell: CellFigures, position: int) -> float | None:
    by_position = cell.acceptance_by_position
    return by_position[position] if position < len(by_position) else None


def _row(part: PagePart, arm: str, of: str, shares: Mapping[int, float | None]) -> Markup:
    cells = [_shade(shares.get(c)) for c in part.concurrencies]
    return tag("tr", tag("th", arm_label(part, arm), scope="row"), tag("th", of, scope="row"), cells)


def _shade(share: float | None) -> Markup:
    if share is None:
        return tag("td", value(UNKNOWN, NO_DRAFTS))
    return tag("td", percent(share), style=f"--share:{min(max(share, 0.0), 1.0):.3f}", class_="shade")
