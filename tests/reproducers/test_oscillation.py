"""The rule of oscillation on made-up cells, and on the embedded engine without a dead band and with one."""

from __future__ import annotations

from pathlib import Path

from reports.reproduction import ReproductionVerdict
from reproducers.oscillation import REPRODUCER, assess
from tests.reproducers.made_up import JITTER, cell, judgement, throughputs
from tests.reproducers.virtual import reproduced

ARMS = ("steadied", "ladder")


def verdict(swinging: float, steadied: float, speed: float = 1.0) -> ReproductionVerdict:
    """Switches per 1,000 steps of the two arms, throughput of the swinging one over the other."""
    rates = {"ladder": swinging, "steadied": steadied}
    figures = {
        arm: {repeat: {"switches_per_1k_steps": rates[arm] * jitter} for repeat, jitter in enumerate(JITTER)}
        for arm in ARMS
    }
    run = judgement([cell(arm, at, by_repeat=figures[arm]) for arm in ARMS for at in (1, 2)])
    rates_s = throughputs({"ladder": speed, "steadied": 1.0}, (1, 2))
    return assess(run, rates_s).verdict


def test_the_report_s_figures_are_reproduced() -> None:
    assert verdict(94.0, 22.0, speed=0.98) is ReproductionVerdict.REPRODUCED


def test_a_k_that_seldom_moves_or_that_no_dead_band_steadies_is_not_it() -> None:
    assert verdict(10.0, 2.0) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict(94.0, 90.0) is ReproductionVerdict.NOT_REPRODUCED


def test_switches_that_pay_for_themselves_leave_it_open() -> None:
    assert verdict(94.0, 22.0, speed=1.2) is ReproductionVerdict.INCONCLUSIVE


def test_without_step_records_it_stays_open() -> None:
    run = judgement([cell(arm, 1) for arm in ARMS])
    assert (
        assess(run, throughputs(dict.fromkeys(ARMS, 1.0), (1,))).verdict is ReproductionVerdict.INCONCLUSIVE
    )


def test_the_embedded_engine_has_it_without_the_dead_band_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
