"""Exit codes: the worst ruling's, and an exploratory run never passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from depthgate.rulings import exit_code
from reports.judgement import Ruling
from tests.reproducers.test_threshold_collapse import judgement


@pytest.mark.parametrize(
    ("rulings", "code"),
    [
        ([Ruling.KEPT], 0),
        ([Ruling.KEPT, Ruling.INCONCLUSIVE], 3),
        ([Ruling.INCONCLUSIVE, Ruling.INVALID], 4),
        ([Ruling.INVALID, Ruling.BROKEN, Ruling.KEPT], 1),
    ],
)
def test_the_worst_ruling_is_the_exit_code(rulings: list[Ruling], code: int) -> None:
    assert exit_code([replace(judgement(), ruling=ruling) for ruling in rulings]) == code


def test_kept_without_a_seal_is_not_a_pass() -> None:
    assert exit_code([replace(judgement(), ruling=Ruling.KEPT, gated=False)]) == 3
