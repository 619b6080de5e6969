"""The rule of threshold-collapse on made-up cells: each verdict from the shape that deserves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.records import CellKey
from reports.judgement import CellFigures, Judgement, Ruling
from reports.pooled import Throughputs
from reports.reproduction import ReproductionVerdict
from reproducers.threshold_collapse import REPRODUCER, assess
from tests.reproducers.virtual import reproduced

CONCURRENCIES = (1, 2, 4, 5, 8, 16)
JITTER = (0.99, 1.0, 1.01)  # over three repeats


def cell(arm: str, concurrency: int) -> CellFigures:
    return CellFigures(arm, concurrency, 3, {"done": 3}, {}, {}, {}, (), None)


def judgement(invalid: tuple[str, ...] = ()) -> Judgement:
    cells = [cell(arm, at) for arm in ("off", "fixed_2", "schedule") for at in CONCURRENCIES]
    cells[-1] = replace(cells[-1], invalid=invalid)
    return Judgement(
        run="r", suite="s", question="q", ruling=Ruling.BROKEN, gated=True, seal="", partial=(), headline="",
        engine="e", profile=None, is_model=True, clock="virtual", baseline="off",
        cells=tuple(cells), verdicts=(),
    )  # fmt: skip


def throughputs(fixed: float, below: float, above: float) -> Throughputs:
    """off runs at 100 a stream; the others at a factor of it, the schedule by side of the threshold."""
    rates = {}
    for at in CONCURRENCIES:
        for repeat, jitter in enumerate(JITTER):
            rates[CellKey("off", at, repeat)] = 100.0 * at
            rates[CellKey("fixed_2", at, repeat)] = 100.0 * at * fixed * jitter
            rates[CellKey("schedule", at, repeat)] = 100.0 * at * (below if at <= 4 else above) * jitter**2
    return Throughputs(rates)


def verdict(fixed: float, below: float, above: float) -> ReproductionVerdict:
    return assess(judgement(), throughputs(fixed, below, above)).verdict


def test_the_field_s_collapse_is_reproduced() -> None:
    summary = assess(judgement(), throughputs(fixed=1.2, below=0.9, above=0.3))
    assert summary.verdict is ReproductionVerdict.REPRODUCED
    assert summary.ratio is not None
    assert summary.ratio.point == pytest.approx(0.25, rel=0.01)
    assert all(sentence.startswith("met") for sentence in summary.evidence)


def test_a_schedule_that_equals_off_above_the_threshold_is_economics() -> None:
    """K=2 pays 1.5x everywhere and the schedule gives that up: a loss, but no engine penalty."""
    assert verdict(fixed=1.5, below=1.5, above=1.0) is ReproductionVerdict.NOT_REPRODUCED


def test_a_loss_that_is_the_same_on_both_sides_is_not_at_the_threshold() -> None:
    """schedule / fixed is 0.3 below and above alike: the third bar (< 1) is not met, and not refuted."""
    assert verdict(fixed=1.0, below=0.3, above=0.3) is ReproductionVerdict.INCONCLUSIVE


def test_a_healthy_schedule_is_not_reproduced() -> None:
    assert verdict(fixed=1.2, below=1.2, above=1.1) is ReproductionVerdict.NOT_REPRODUCED


def test_a_spoiled_repeat_is_left_out_and_said() -> None:
    """The repeats that remain decide; the sentence names the cell."""
    rates = {key: rate for key, rate in throughputs(1.2, 0.9, 0.3).tokens_per_s.items() if key.repeat != 0}
    summary = assess(judgement(invalid=("repeat 0: the client was late",)), Throughputs(rates))
    assert summary.verdict is ReproductionVerdict.REPRODUCED
    assert summary.evidence[-1] == (
        "left out whole: repeats with a spoiled cell (schedule c=16), "
        "the first since repeat 0: the client was late"
    )


def test_too_few_clean_repeats_are_invalid() -> None:
    rates = {key: rate for key, rate in throughputs(1.2, 0.9, 0.3).tokens_per_s.items() if key.repeat == 2}
    summary = assess(judgement(invalid=("repeat 0: the client was late",)), Throughputs(rates))
    assert summary.verdict is ReproductionVerdict.INVALID


def test_a_policy_that_was_not_applied_is_invalid_whatever_the_figures() -> None:
    summary = assess(judgement(invalid=("repeat 0: policy not applied: ...",)), throughputs(1.2, 0.9, 0.3))
    assert summary.verdict is ReproductionVerdict.INVALID


def test_a_missing_arm_is_inconclusive_and_says_what_is_needed() -> None:
    rates = {
        key: rate for key, rate in throughputs(1.2, 0.9, 0.3).tokens_per_s.items() if key.arm == "schedule"
    }
    summary = assess(judgement(), Throughputs(rates))
    assert summary.verdict is ReproductionVerdict.INCONCLUSIVE
    assert summary.ratio is None
    assert "valid repeats of every arm" in summary.evidence[0]


def test_it_names_its_report_and_figures() -> None:
    assert REPRODUCER.report == "vllm#49548"
    assert "232" in REPRODUCER.published


def test_the_embedded_engine_has_it_with_its_switches_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
