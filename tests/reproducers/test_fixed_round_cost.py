"""The rule of fixed-round-cost on made-up cells, its profile, and the engine with the cost and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.embedded.profile import load_profile
from engines.embedded.roofline import modelled_step_s
from reports.reproduction import ReproductionVerdict
from reproducers.fixed_round_cost import REPRODUCER, assess
from tests.reproducers.made_up import JITTER, cell, judgement, throughputs
from tests.reproducers.virtual import reproduced


def verdict(ratio: float, length: float) -> ReproductionVerdict:
    figures = {repeat: {"acceptance_length": length * jitter} for repeat, jitter in enumerate(JITTER)}
    run = judgement([cell(arm, 1, by_repeat=figures) for arm in ("off", "fixed_2")])
    return assess(run, throughputs({"off": 1.0, "fixed_2": ratio}, (1,))).verdict


def test_the_report_s_figures_are_reproduced() -> None:
    assert verdict(43.7 / 61.2, 2.79) is ReproductionVerdict.REPRODUCED


def test_a_loss_at_low_acceptance_is_another_matter() -> None:
    assert verdict(43.7 / 61.2, 1.4) is ReproductionVerdict.INCONCLUSIVE


def test_a_win_is_not_it() -> None:
    assert verdict(1.4, 2.79) is ReproductionVerdict.NOT_REPRODUCED


def test_the_profile_gives_what_it_was_sized_to() -> None:
    profile = load_profile("sm80x4-pp4-mtp")
    assert 1 / modelled_step_s(profile, 1, 0) == pytest.approx(61.2, rel=0.01)
    assert 8 / modelled_step_s(profile, 8, 0) == pytest.approx(163.2, rel=0.01)


def test_the_embedded_engine_has_it_with_the_cost_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
