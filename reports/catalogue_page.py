"""catalogue.html: every reproducer, its control, the published figure and ours, on one page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from reports.catalogue import Catalogue, CatalogueRow
from reports.catalogue_table import published_text, remarks
from reports.document import FOOTER, html_document
from reports.formats import DASH, UNKNOWN, ratio, ratio_interval
from reports.markup import Markup, tag
from reports.reproduction import ReproductionVerdict
from reports.sections.blocks import chip, note, table, value

HEAD = ("Reproducer", "Report", "Verdict", "Control", "Published", "Ours (95 %)", "Declared")
_STYLES = (
    ".catalogue td, .catalogue th { text-align: left; vertical-align: top; white-space: normal; }"
    ".catalogue td:nth-child(n + 5) { white-space: nowrap; }"
    ".catalogue small { display: block; font-weight: normal; color: var(--dim); max-width: 260px; }"
    ".catalogue td small { white-space: normal; } .catalogue small.bad { color: var(--broken); }"
    "header { padding-bottom: 12px; }"
)


def write_catalogue_page(catalogue: Catalogue, path: Path) -> Path:
    """Some 10 kB, no script. OSError if `path` cannot be written."""
    path.write_text(catalogue_page(catalogue), encoding="utf-8", errors="replace")
    return path


def catalogue_page(catalogue: Catalogue) -> str:
    """The page as text."""
    counts = Counter(str(row.verdict) for row in catalogue.rows)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    content = [
        tag(
            "header",
            tag("p", "depthgate catalogue", class_="brand"),
            tag("h1", "Reports from the field, reproduced"),
            tag("p", f"Of {len(catalogue.rows)} reproducers: {said or 'none was run'}.", class_="question"),
        ),
        tag(
            "main",
            tag("p", f"{catalogue.engine}, {catalogue.clock} clock.", class_="strip"),
            tag("section", _rows(catalogue), _explanation(), class_="card"),
            _remarks(catalogue),
            tag("section", tag("h3", "Again"), tag("pre", tag("code", catalogue.command)), class_="card"),
        ),
        FOOTER,
    ]
    return html_document(f"catalogue {catalogue.run} · depthgate", content, styles=_STYLES)


def _rows(catalogue: Catalogue) -> Markup:
    return table(HEAD, [_row(row) for row in catalogue.rows], class_="catalogue")


def _row(row: CatalogueRow) -> list[Markup]:
    name = tag("a", row.name, href=row.page) if row.page else tag("span", row.name)
    low, high = map(ratio, row.expected or (None, None))
    control = row.control_verdict
    return [
        tag("span", name, tag("small", row.symptom)),
        tag("span", row.report),
        _verdict(row.verdict, ReproductionVerdict.REPRODUCED),
        tag(
            "span",
            _verdict(control, ReproductionVerdict.NOT_REPRODUCED) if control else value(UNKNOWN),
            tag("small", row.control_says if control else "none: the cause is in the engine"),
        ),
        tag("span", value(published_text(row)), tag("small", row.published_of or row.published_text)),
        tag("span", value(ratio_interval(row.ours)), tag("small", row.ours_of)),
        value(UNKNOWN) if row.expected is None else tag("span", f"{low}{DASH}{high}", _missed(row)),
    ]


def _missed(row: CatalogueRow) -> Markup | None:
    return tag("small", "missed", class_="bad") if row.as_expected is False else None


def _verdict(verdict: ReproductionVerdict, wanted: ReproductionVerdict) -> Markup:
    """Green where it is as it should be; a control should not reproduce."""
    if verdict in (ReproductionVerdict.INVALID, ReproductionVerdict.INCONCLUSIVE):
        return chip(str(verdict))
    return chip("kept" if verdict is wanted else "broken", str(verdict))


def _explanation() -> Markup:
    return note(
        "Control: the same run with the cause removed, which must not reproduce. Published and ours are on "
        "one scale: what our figure is stands under it. Declared: where the model's figure was to fall, by "
        "what was measured or published elsewhere."
    )


def _remarks(catalogue: Catalogue) -> Markup | None:
    said = [line for row in catalogue.rows for line in remarks(row)]
    if not said:
        return None
    return tag(
        "section",
        tag("h3", "Not as it should be"),
        tag("ul", [tag("li", line) for line in said]),
        class_="card",
    )
