"""The rule of piecewise-override on made-up cells, and on the embedded engine with its switch on and off."""

from __future__ import annotations

from pathlib import Path

from reports.reproduction import ReproductionVerdict
from reproducers.piecewise_override import REPRODUCER, assess
from tests.reproducers.made_up import JITTER, cell, judgement, rates_by_width
from tests.reproducers.virtual import reproduced

AT = (1, 8)


def verdict(armed: dict[int, float], verified: float = 1.0) -> ReproductionVerdict:
    cells = [
        cell(
            arm,
            at,
            by_repeat={
                repeat: {"verified_per_emitted": (verified if arm == "armed" else 1.0) * jitter}
                for repeat, jitter in enumerate(JITTER)
            },
        )
        for arm in ("off", "fixed_2", "armed")
        for at in AT
    ]
    rates = rates_by_width({"off": dict.fromkeys(AT, 1.0), "fixed_2": dict.fromkeys(AT, 1.3), "armed": armed})
    return assess(judgement(cells), rates).verdict


def test_armed_loses_at_one_request_too() -> None:
    assert verdict({1: 0.7, 8: 0.6}) is ReproductionVerdict.REPRODUCED
    assert verdict({1: 1.3, 8: 1.3}) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict({1: 1.3, 8: 0.5}) is ReproductionVerdict.NOT_REPRODUCED  # above a threshold alone


def test_another_k_is_no_override() -> None:
    assert verdict({1: 0.7, 8: 0.6}, verified=0.5) is ReproductionVerdict.INCONCLUSIVE


def test_the_embedded_engine_has_it_with_the_switch_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
