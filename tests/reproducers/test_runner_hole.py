"""The rule of runner-hole on made-up cells, and on the embedded engine with its switch on and off."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.reproduction import ReproductionVerdict
from reproducers.runner_hole import REPRODUCER, assess
from tests.reproducers.made_up import JITTER, cell, judgement, rates_by_width
from tests.reproducers.virtual import reproduced

AT = (3, 4, 5, 6)


def verdict(factors: dict[int, float]) -> ReproductionVerdict:
    same = {repeat: {"acceptance_length": 2.4 * jitter} for repeat, jitter in enumerate(JITTER)}
    cells = [cell(arm, at, by_repeat=same) for arm in ("off", "fixed_2") for at in AT]
    rates = rates_by_width({"off": dict.fromkeys(AT, 1.0), "fixed_2": factors})
    return assess(judgement(cells), rates).verdict


def test_a_hole_two_requests_wide_is_reproduced_and_a_step_down_is_not() -> None:
    assert verdict({3: 1.5, 4: 0.6, 5: 0.6, 6: 1.5}) is ReproductionVerdict.REPRODUCED
    assert verdict({3: 1.5, 4: 0.6, 5: 0.6, 6: 0.6}) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict({3: 1.5, 4: 1.4, 5: 1.5, 6: 1.5}) is ReproductionVerdict.NOT_REPRODUCED


def test_the_published_figure_is_that_of_its_numbers() -> None:
    figure = REPRODUCER.published_figure
    assert figure is not None
    assert figure.low == figure.high == pytest.approx(0.283, abs=5e-4)


def test_the_embedded_engine_has_it_with_the_switch_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
