"""The rule of amplification on made-up cells, and on the embedded engine with a poor and a good drafter."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.reproduction import ReproductionVerdict
from reproducers.amplification import REPRODUCER, SUITS, assess, verified_per_emitted
from tests.reproducers.made_up import JITTER, cell, judgement, throughputs
from tests.reproducers.virtual import reproduced


def verdict(metric: str, value: float, loss: float) -> ReproductionVerdict:
    figures = {repeat: {metric: value * jitter} for repeat, jitter in enumerate(JITTER)}
    run = judgement([cell("off", 1, by_repeat=figures), cell("fixed_8", 1, by_repeat=figures)])
    return assess(run, throughputs({"off": 1.0, "fixed_8": loss}, (1,))).verdict


def test_the_report_s_figures_are_reproduced_from_steps_or_from_counters() -> None:
    assert verdict("verified_per_emitted", 4.96, 11.37 / 56.49) is ReproductionVerdict.REPRODUCED
    assert verdict("acceptance_length", 8 / 4.96, 11.37 / 56.49) is ReproductionVerdict.REPRODUCED


def test_neither_a_good_drafter_nor_a_cheap_verification_is_it() -> None:
    assert verdict("verified_per_emitted", 1.3, 0.5) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict("verified_per_emitted", 4.96, 1.1) is ReproductionVerdict.NOT_REPRODUCED


def test_without_counters_it_stays_open() -> None:
    assert verdict("jain_index", 1.0, 0.2) is ReproductionVerdict.INCONCLUSIVE


def test_counters_give_k_over_the_acceptance_length() -> None:
    figures = {repeat: {"acceptance_length": 2.0} for repeat in range(3)}
    found = verified_per_emitted(judgement([cell("fixed_8", 1, by_repeat=figures)]), [1])
    assert found is not None
    assert (found.low, found.point, found.high) == (4.0, 4.0, 4.0)


def test_a_drafter_that_suits_needs_far_less_than_the_bar() -> None:
    assert 8 / (1 + sum(SUITS)) == pytest.approx(1.31, abs=0.005)


def test_the_embedded_engine_has_it_with_low_acceptance_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
