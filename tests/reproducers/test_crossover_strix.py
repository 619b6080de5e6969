"""The rule of crossover-strix on made-up cells, and on the embedded engine with its cliff and without."""

from __future__ import annotations

from pathlib import Path

from loadgen.records import CellKey
from reports.pooled import Throughputs
from reports.reproduction import ReproductionVerdict
from reproducers.crossover_strix import REPRODUCER, assess
from tests.reproducers.made_up import JITTER, cell, judgement
from tests.reproducers.virtual import reproduced


def verdict(ratios: dict[int, float]) -> ReproductionVerdict:
    rates = {
        CellKey(arm, at, repeat): 10.0 * at * (ratio * jitter if arm == "fixed_4" else 1.0)
        for at, ratio in ratios.items()
        for arm in ("off", "fixed_4")
        for repeat, jitter in enumerate(JITTER)
    }
    run = judgement([cell(arm, at) for arm in ("off", "fixed_4") for at in ratios])
    return assess(run, Throughputs(rates)).verdict


def test_the_report_s_own_rows_are_reproduced() -> None:
    assert verdict({1: 22.1 / 11.11, 2: 16.52 / 20.14, 4: 26.35 / 34.14}) is ReproductionVerdict.REPRODUCED
    assert verdict({1: 21.22 / 11.11, 2: 15.87 / 20.14, 4: 25.32 / 34.14}) is ReproductionVerdict.REPRODUCED


def test_one_winning_concurrency_or_a_loss_at_one_request_refutes_it() -> None:
    assert verdict({1: 2.0, 2: 0.8, 4: 1.1}) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict({1: 0.9, 2: 0.8, 4: 0.8}) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict({1: 2.0, 2: 1.0, 4: 0.8}) is ReproductionVerdict.INCONCLUSIVE


def test_one_request_alone_decides_nothing_of_two() -> None:
    run = judgement([cell(arm, 1) for arm in ("off", "fixed_4")])
    assert assess(run, Throughputs({})).verdict is ReproductionVerdict.INCONCLUSIVE


def test_the_embedded_engine_has_it_with_the_cliff_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
