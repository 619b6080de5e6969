"""Where speculation breaks even, on made-up cells; suffix-below-baseline with poor drafts and with good."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.records import CellKey
from reports.pooled import Throughputs
from reports.reproduction import ReproductionVerdict
from reproducers.crossing import crossing
from reproducers.suffix_below_baseline import REPRODUCER, assess
from tests.reproducers.made_up import JITTER, cell, judgement
from tests.reproducers.virtual import reproduced


def rates(course: dict[int, float]) -> Throughputs:
    """The subject at a ratio to no speculation that depends on the concurrency."""
    return Throughputs(
        {
            CellKey(arm, at, repeat): 100.0 * at * (ratio * jitter if arm == "fixed_8" else 1.0)
            for at, ratio in course.items()
            for arm in ("off", "fixed_8")
            for repeat, jitter in enumerate(JITTER)
        }
    )


def verdict(course: dict[int, float]) -> ReproductionVerdict:
    run = judgement([cell(arm, at) for arm in ("off", "fixed_8") for at in course])
    return assess(run, rates(course)).verdict


def test_it_breaks_even_between_the_last_win_and_the_first_loss() -> None:
    """1.25 at 16, 0.8 at 64: half-way in the logarithms is 32."""
    found = crossing(rates({1: 2.0, 16: 1.25, 64: 0.8}), "fixed_8", (1, 16, 64))
    assert found is not None
    assert found.point == pytest.approx(32.0, rel=1e-3)
    assert 30 < found.low < 32 < found.high < 34


def test_a_course_that_never_falls_breaks_even_nowhere() -> None:
    assert crossing(rates({1: 2.0, 64: 1.2}), "fixed_8", (1, 64)) is None
    assert crossing(rates({1: 0.9, 64: 0.5}), "fixed_8", (1, 64)) is None
    assert crossing(Throughputs({}), "fixed_8", (1, 64)) is None


def test_a_win_that_turns_into_a_loss_is_reproduced_and_nothing_else() -> None:
    assert verdict({1: 1.6, 20: 1.0, 64: 0.7}) is ReproductionVerdict.REPRODUCED
    assert verdict({1: 1.6, 64: 1.2}) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict({1: 0.9, 64: 0.7}) is ReproductionVerdict.NOT_REPRODUCED


def test_the_embedded_engine_has_it_with_poor_drafts_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
    assert control.ratio is None


def test_a_run_without_cells_is_inconclusive() -> None:
    assert assess(judgement([]), Throughputs({})).verdict is ReproductionVerdict.INCONCLUSIVE
