"""The catalogue of reproducers, run: a row each, with its control, its published figure and ours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports.judgement import Interval
from reports.reproduction import ReproductionVerdict


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """One reproducer as it came out.

    control_verdict  of the same run without the cause; None: there is none (the cause is in a real engine)
    published, published_of   the report's figure on our scale (None: it states none) and what it is
    published_text   the report's figures in its own words
    expected         where the model's figure was declared to fall; None where no model ran
    page             of the run, relative to the catalogue's own page; None: it was not run
    """

    name: str
    report: str
    symptom: str
    verdict: ReproductionVerdict
    control_verdict: ReproductionVerdict | None
    control_says: str
    published: tuple[float, float] | None
    published_of: str | None
    published_text: str
    ours: Interval | None
    ours_of: str
    expected: tuple[float, float] | None
    evidence: tuple[str, ...] = ()
    page: str | None = None

    @property
    def as_expected(self) -> bool | None:
        """Whether our figure fell where it was declared to fall; None: nothing was declared, or no figure."""
        if self.expected is None or self.ours is None:
            return None
        return self.expected[0] <= self.ours.point <= self.expected[1]

    def to_json(self) -> dict[str, object]:
        """The object of `--json`; unknown figures are null."""
        low, high = self.published or (None, None)
        ours = self.ours
        return {
            "reproducer": self.name,
            "report": self.report,
            "verdict": str(self.verdict),
            "control_verdict": str(self.control_verdict) if self.control_verdict else None,
            "published": {"low": low, "high": high, "of": self.published_of, "text": self.published_text},
            "ours": {
                "low": ours.low if ours else None,
                "point": ours.point if ours else None,
                "high": ours.high if ours else None,
                "of": self.ours_of or None,
            },
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class Catalogue:
    """`run`: the folder's name; `engine`: in words, with the profile of a model; `command`: as typed."""

    run: str
    engine: str
    clock: str
    command: str
    rows: tuple[CatalogueRow, ...]


def catalogue_code(rows: Iterable[CatalogueRow]) -> int:
    """0: all reproduced and every control not; 1: one is otherwise; else 4 invalid before 3 inconclusive."""
    wanted = ReproductionVerdict.REPRODUCED, ReproductionVerdict.NOT_REPRODUCED
    found = {
        verdict
        if verdict in (ReproductionVerdict.INVALID, ReproductionVerdict.INCONCLUSIVE)
        else verdict is want
        for row in rows
        for want, verdict in zip(wanted, (row.verdict, row.control_verdict), strict=True)
        if verdict is not None
    }
    if False in found:
        return 1
    if ReproductionVerdict.INVALID in found:
        return 4
    return 3 if ReproductionVerdict.INCONCLUSIVE in found else 0
