"""The verdict banner: ruling, headline, gated or exploratory, what is missing, and the ratio grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reports.formats import RULING_MARKS, UNKNOWN, cell_point, ratio, ratio_interval, shown
from reports.judgement import BudgetVerdict, CellFigures, Judgement, Ruling
from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.rulings import WORST_FIRST, headline_matter, worst_rulings
from reports.sections.blocks import arm_label, chip, ruling_line, scroller, value

METRIC = "tokens_per_s"
WORDS = {
    Ruling.KEPT: "Budgets kept",
    Ruling.BROKEN: "Budget broken",
    Ruling.INCONCLUSIVE: "Inconclusive",
    Ruling.INVALID: "Invalid",
}
MEANING = {
    Ruling.KEPT: "Every budget holds with its whole interval.",
    Ruling.BROKEN: "At least one budget is broken by its whole interval.",
    Ruling.INCONCLUSIVE: "Not decided: an interval straddles its bound or a part is missing. Repeat it.",
    Ruling.INVALID: "Machine or client spoiled it, or the policy was not applied: see the cells.",
}


def verdict_banner(part: PagePart) -> Markup:
    """What an on-call engineer decides by."""
    judgement = part.judgement
    status = "gated" if judgement.gated else "exploratory"
    counts_as = "A sealed suite: this verdict counts." if judgement.gated else "Never counts as passed."
    counts_as = counts_as if judgement.verdicts else ""
    mark, word, look, meaning = _ruling(judgement)
    badge = tag("span", status, class_=f"badge {status}")
    return tag(
        "section",
        ruling_line(mark, word, badge),
        tag("p", headline_matter(judgement), class_="headline"),
        tag("p", f"{meaning} {counts_as}", class_="small"),
        tag("p", f"Seal: {judgement.seal}", class_="small"),
        _counts(judgement.verdicts),
        _partial(judgement.partial),
        _grid(part),
        class_=f"banner {look}",
        id=f"{part.anchor}-verdict",
        aria_label="Verdict",
    )


def _ruling(judgement: Judgement) -> tuple[str, str, str, str]:
    """(mark, word, look, meaning); green only for a gated run that kept its budgets."""
    ruling = judgement.ruling
    if not judgement.verdicts and ruling is not Ruling.INVALID:
        return "·", "No budgets", "exploratory", "Nothing was promised, so there is nothing to keep or break."
    look = "exploratory" if ruling is Ruling.KEPT and not judgement.gated else ruling.value
    return RULING_MARKS[ruling], WORDS[ruling], look, MEANING[ruling]


def _counts(verdicts: Sequence[BudgetVerdict]) -> Markup | None:
    if not verdicts:
        return None
    counts = Counter(verdict.ruling for verdict in verdicts)
    chips = [chip(ruling, f"{counts[ruling]} {ruling.value}") for ruling in WORST_FIRST if counts[ruling]]
    return tag("p", "Budget checks: ", [[each, " "] for each in chips], class_="counts")


def _partial(missing: Sequence[str]) -> Markup | None:
    if not missing:
        return None
    lines = tag("ul", [tag("li", sentence) for sentence in missing])
    return tag(
        "div", tag("strong", "Partial: judged from what is there."), lines, class_="partial", role="note"
    )


def _grid(part: PagePart) -> Markup | None:
    """Throughput ratio to the baseline, arm by concurrency: where it hurts, at a glance."""
    arms = [arm for arm in part.arms if arm != part.judgement.baseline]
    if not arms:
        return None
    head = [tag("th", f"tokens/s ÷ {part.judgement.baseline}", scope="col")]
    head += [tag("th", tag("span", "c=", class_="dim"), str(c), scope="col") for c in part.concurrencies]
    rows = [*(_grid_row(part, arm) for arm in arms), _baseline_row(part)]
    inner = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="grid")
    return scroller(inner, "Throughput ratio to the baseline, arm by concurrency")


def _grid_row(part: PagePart, arm: str) -> Markup:
    cells = part.cells_of(arm)
    rulings = worst_rulings(part.judgement.verdicts, METRIC)
    ratios = [_grid_cell(cells.get(c), rulings.get((arm, c))) for c in part.concurrencies]
    return tag("tr", tag("th", arm_label(part, arm), scope="row"), ratios)


def _baseline_row(part: PagePart) -> Markup:
    """What the ratios are of, in tokens/s."""
    baseline = part.judgement.baseline
    cells = part.cells_of(baseline)
    texts = [
        shown(METRIC, cell_point(cells[c], METRIC)) if c in cells else UNKNOWN for c in part.concurrencies
    ]
    heading = tag("th", f"{baseline}, tokens/s", scope="row")
    return tag("tr", heading, [tag("td", value(text)) for text in texts], class_="base")


def _grid_cell(cell: CellFigures | None, ruling: Ruling | None) -> Markup:
    if cell is None:
        return tag("td", value(UNKNOWN, "not measured"))
    interval = cell.ratios.get(METRIC)
    text = value(ratio(interval.point if interval else None))
    if cell.invalid:
        ruling = Ruling.INVALID
    if ruling is None:
        return tag("td", text, title=ratio_interval(interval))
    mark = tag("span", RULING_MARKS[ruling], class_="mark", aria_hidden="true")
    spoken = tag("span", f" {ruling.value}", class_="unseen")
    return tag(
        "td",
        mark,
        " ",
        text,
        spoken,
        class_=ruling.value,
        title=f"{ruling.value}: {ratio_interval(interval)}",
    )
