"""The rule of batch-dependent-acceptance on made-up cells, and on the engine with the knee and without it."""

from __future__ import annotations

from pathlib import Path

from reports.reproduction import ReproductionVerdict
from reproducers.batch_dependent_acceptance import REPRODUCER, assess
from tests.reproducers.made_up import JITTER, cell, judgement, throughputs
from tests.reproducers.virtual import reproduced

AT = (4, 8, 16)


def verdict(deep: tuple[float, ...], shallow: tuple[float, ...], gain: float = 1.5) -> ReproductionVerdict:
    """Accepted drafts a verification at 4, 8 and 16; `gain`: tokens/s of K=1 over K=7."""
    cells = [cell("off", at, by_repeat={r: {"acceptance_length": 1.0} for r in range(3)}) for at in AT]
    for arm, course in (("fixed_7", deep), ("fixed_1", shallow)):
        for at, accepted in zip(AT, course, strict=True):
            figures = {r: {"acceptance_length": 1 + accepted * jitter} for r, jitter in enumerate(JITTER)}
            cells.append(cell(arm, at, by_repeat=figures))
    return assess(judgement(cells), throughputs({"off": 1.0, "fixed_7": 1.0, "fixed_1": gain}, AT)).verdict


def test_clean_degraded_collapsed_with_a_k_of_one_that_recovers() -> None:
    assert verdict((2.3, 1.2, 0.2), (0.7, 0.7, 0.68)) is ReproductionVerdict.REPRODUCED


def test_acceptance_that_stays_is_not_it_however_throughput_falls() -> None:
    assert verdict((2.3, 2.3, 2.3), (0.7, 0.7, 0.7)) is ReproductionVerdict.NOT_REPRODUCED


def test_a_drafter_that_fails_at_every_depth_is_another_fault() -> None:
    assert verdict((2.3, 1.2, 0.2), (0.7, 0.4, 0.1)) is ReproductionVerdict.NOT_REPRODUCED


def test_a_fall_that_k_of_one_does_not_mend_is_not_it() -> None:
    assert verdict((2.3, 1.2, 0.2), (0.7, 0.7, 0.7), gain=0.8) is ReproductionVerdict.NOT_REPRODUCED


def test_without_counters_it_stays_open() -> None:
    run = judgement([cell(arm, at) for arm in ("off", "fixed_7", "fixed_1") for at in AT])
    found = assess(run, throughputs({"off": 1.0, "fixed_7": 1.0, "fixed_1": 1.5}, AT))
    assert found.verdict is ReproductionVerdict.INCONCLUSIVE


def test_the_embedded_engine_has_it_with_the_knee_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
