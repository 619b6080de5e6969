"""withdrawn-fix: what counts as an improvement, and that a real one is seen; made-up cells and the engine."""

from __future__ import annotations

from pathlib import Path

from reports.reproduction import ReproductionVerdict
from reproducers.withdrawn_fix import REPRODUCER, assess
from suites.parse import load_suite
from tests.reproducers.made_up import JITTER, cell, judgement, rates_by_width
from tests.reproducers.virtual import reproduced

AT = (2, 4)


def verdict(fix: dict[int, float], switches: float = 50.0) -> ReproductionVerdict:
    cells = [
        cell(
            arm,
            at,
            by_repeat={
                repeat: {"switches_per_1k_steps": switches if arm == "fix" else 40.0}
                for repeat in range(len(JITTER))
            },
        )
        for arm in ("plain", "fix")
        for at in AT
    ]
    rates = rates_by_width({"plain": dict.fromkeys(AT, 1.0), "fix": fix}, base="plain")
    return assess(judgement(cells), rates).verdict


def test_no_improvement_anywhere_is_what_is_reproduced() -> None:
    assert verdict({2: 1.0, 4: 0.95}) is ReproductionVerdict.REPRODUCED
    assert verdict({2: 1.0, 4: 1.1}) is ReproductionVerdict.NOT_REPRODUCED


def test_an_improvement_within_the_noise_is_open() -> None:
    assert verdict({2: 1.0, 4: 1.02}) is ReproductionVerdict.INCONCLUSIVE


def test_a_fix_that_changed_nothing_was_not_tried() -> None:
    assert verdict({2: 1.0, 4: 1.0}, switches=40.0) is ReproductionVerdict.INCONCLUSIVE


def test_it_is_of_25_pairs() -> None:
    assert load_suite(REPRODUCER.suite).repeats == 25


def test_the_fix_brings_nothing_on_the_embedded_engine_and_a_real_one_is_seen(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
    assert control.ratio is not None
    assert control.ratio.low > 1.02
