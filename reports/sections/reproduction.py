"""The reproduction banner: did a report from the field happen here, by how much, and on what evidence."""

from __future__ import annotations

from reports.formats import UNKNOWN, ratio_interval
from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.reproduction import ReproductionVerdict
from reports.sections.blocks import ruling_line, value

WORDS = {
    ReproductionVerdict.REPRODUCED: ("◉", "Reproduced"),
    ReproductionVerdict.NOT_REPRODUCED: ("○", "Not reproduced"),
    ReproductionVerdict.INCONCLUSIVE: ("?", "Inconclusive"),
    ReproductionVerdict.INVALID: ("!", "Invalid"),
}


def reproduction_banner(part: PagePart) -> Markup | None:
    """None when the run is no reproduction."""
    summary = part.run.reproduction
    if summary is None:
        return None
    mark, word = WORDS[summary.verdict]
    facts = [
        (
            ": ".join(filter(None, (summary.figure_is.capitalize(), summary.ratio_of))),
            value(ratio_interval(summary.ratio)),
        ),
        ("Published", value(summary.published or UNKNOWN)),
    ]
    return tag(
        "section",
        ruling_line(mark, word, tag("span", summary.report, class_="badge")),
        tag("p", summary.title, class_="headline"),
        tag("dl", [tag("div", tag("dt", name), tag("dd", shown)) for name, shown in facts], class_="facts"),
        tag("ul", [tag("li", sentence) for sentence in summary.evidence]) if summary.evidence else None,
        tag("p", f"Reproducer {summary.name}.", class_="small"),
        class_=f"banner reproduction {summary.verdict.value}",
        id=f"{part.anchor}-reproduction",
        aria_label="Reproduction",
    )
