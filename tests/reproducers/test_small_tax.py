"""The rule of small-tax on made-up cells: the least effect that is seen; and on the embedded engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.reproduction import ReproductionVerdict
from reproducers.small_tax import REPRODUCER, assess
from tests.reproducers.made_up import cell, judgement, throughputs
from tests.reproducers.virtual import reproduced

AT = (8,)


def verdict(disabled: float, again: float = 1.0, jitter: float = 1.0) -> ReproductionVerdict:
    """`jitter` 1: repeats 0.5 % apart."""
    run = judgement([cell(arm, at) for arm in ("off", "off_again", "disabled") for at in AT])
    rates = throughputs({"off": 1.0, "off_again": again, "disabled": disabled}, AT, jitter)
    return assess(run, rates).verdict


@pytest.mark.parametrize(
    ("tax", "jitter"), [(0.02, 0.2), (0.07, 0.2), (0.07, 0.7)], ids=["2 %", "7 %", "7 %, noisier"]
)
def test_the_reports_two_to_seven_per_cent_are_seen(tax: float, jitter: float) -> None:
    assert verdict(1 - tax, jitter=jitter) is ReproductionVerdict.REPRODUCED


def test_what_noise_covers_stays_open() -> None:
    assert verdict(0.98, jitter=1.0) is ReproductionVerdict.INCONCLUSIVE
    assert verdict(0.93, jitter=4.0) is ReproductionVerdict.INCONCLUSIVE


def test_no_tax_is_not_reproduced() -> None:
    assert verdict(1.0, jitter=0.2) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict(0.98, again=0.98, jitter=0.2) is ReproductionVerdict.INCONCLUSIVE  # equal arms differ


def test_the_embedded_engine_has_it_with_the_switch_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
