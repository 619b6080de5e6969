"""The verdict banner: ruling, headline, gated or exploratory, what is missing, and the ratio grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reports.formats import RULING_MARKS, UNKNOWN, cell_point, ratio, ratio_interval, shown
from reports.judgement import BudgetVerdict, CellFigures, Ruling
from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.sections.blocks import arm_label, chip, scroller, value

METRIC = "tokens_per_s"
WORDS = {
    Ruling.KEPT: "Budgets kept",
    Ruling.BROKEN: "Budget broken",
    Ruling.INCONCLUSIVE: "Inconclusive",
    Ruling.INVALID: "Invalid",
}
MEANING = {
    Ruling.KEPT: "every budget holds with its whole interval",
    Ruling.BROKEN: "at least one budget is broken by its whole interval",
    Ruling.INCONCLUSIVE: "an interval straddles its bound: more repeats are needed",
    Ruling.INVALID: "the machine or the client spoiled the measurement: run it again",
}
WORST_FIRST = (Ruling.INVALID, Ruling.BROKEN, Ruling.INCONCLUSIVE, Ruling.KEPT)


def verdict_banner(part: PagePart) -> Markup:
    """What an on-call engineer decides by."""
    judgement = part.judgement
    has_budgets = bool(judgement.verdicts)
    word = WORDS[judgement.ruling]
    if not has_budgets and judgement.ruling is Ruling.KEPT:
        word = "No budgets"
    mark = tag(
        "span", RULING_MARKS[judgement.ruling] if has_budgets else "·", class_="big-mark", aria_hidden="true"
    )
    status = "gated" if judgement.gated else "exploratory"
    meaning = (
        "a sealed suite: this verdict counts"
        if judgement.gated
        else "reported only: it never counts as passed"
    )
    look = judgement.ruling.value if judgement.gated or judgement.ruling is not Ruling.KEPT else "exploratory"
    return tag(
        "section",
        tag(
            "p",
            mark,
            tag("strong", word),
            " ",
            tag("span", status, class_=f"badge {status}"),
            class_="ruling",
        ),
        tag("p", judgement.headline, class_="headline"),
        tag(
            "p",
            f"{status}: {meaning}. " if not judgement.gated else f"{meaning}. ",
            judgement.seal,
            class_="small",
        ),
        _counts(judgement.verdicts),
        _partial(judgement.partial),
        _grid(part),
        class_=f"banner {look}",
        id=f"{part.anchor}-verdict",
        aria_label="Verdict",
    )


def _counts(verdicts: Sequence[BudgetVerdict]) -> Markup:
    if not verdicts:
        return tag("p", "The suite has no budgets, so there is nothing to keep or break.", class_="small")
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
    rulings = _worst_rulings(part.judgement.verdicts, arm)
    ratios = [_grid_cell(cells.get(c), rulings.get(c)) for c in part.concurrencies]
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


def _worst_rulings(verdicts: Sequence[BudgetVerdict], arm: str) -> dict[int, Ruling]:
    """Concurrency -> worst ruling over the arm's throughput budgets."""
    worst: dict[int, Ruling] = {}
    for verdict in verdicts:
        if verdict.arm == arm and verdict.metric == METRIC:
            before = worst.get(verdict.concurrency, Ruling.KEPT)
            worst[verdict.concurrency] = min(before, verdict.ruling, key=WORST_FIRST.index)
    return worst


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
