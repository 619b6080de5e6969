"""From a judgement to an exit code: 0 kept, 1 broken, 3 inconclusive, 4 invalid."""

from __future__ import annotations

from collections.abc import Iterable

from reports.judgement import EXIT_CODES, Judgement, Ruling
from reports.reproduction import ReproductionVerdict
from reports.rulings import WORST_FIRST

REPRODUCTION_CODES = {
    ReproductionVerdict.REPRODUCED: 0,
    ReproductionVerdict.NOT_REPRODUCED: 1,
    ReproductionVerdict.INCONCLUSIVE: 3,
    ReproductionVerdict.INVALID: 4,
}


def exit_code(judgements: Iterable[Judgement]) -> int:
    """The worst ruling's code. Exploratory runs never pass: kept without a seal exits as inconclusive."""
    rulings = {
        Ruling.INCONCLUSIVE if judgement.ruling is Ruling.KEPT and not judgement.gated else judgement.ruling
        for judgement in judgements
    }
    return next(EXIT_CODES[ruling] for ruling in WORST_FIRST if ruling in rulings)
