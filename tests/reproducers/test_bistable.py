"""The rule of bistable on made-up runs, and on the embedded engine with graphs up to 32 and beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.records import CellKey
from loadgen.traffic import TrafficMix
from loadgen.virtual import simulate_cell
from reports.pooled import Throughputs
from reports.reproduction import ReproductionSummary, ReproductionVerdict
from reproducers.bistable import CONTROL_RUNS, REPRODUCER, SUBJECT, assess
from reproducers.changes import with_load
from suites.parse import load_suite
from tests.reproducers.made_up import cell, judgement
from tests.reproducers.virtual import reproduced

HEALTHY_S, FALLEN_S = 0.0030, 0.0126  # sglang#33483


def summary(
    itl_s: Sequence[float], light_s: float = 0.0028, manifest: dict[str, object] | None = None
) -> ReproductionSummary:
    light = cell(SUBJECT, 1, by_repeat={at: {"itl_p50_s": light_s} for at in range(len(itl_s))})
    loaded = cell(SUBJECT, 40, by_repeat={at: {"itl_p50_s": each} for at, each in enumerate(itl_s)})
    return assess(replace(judgement([light, loaded]), manifest=manifest or {}), Throughputs({}))


def test_the_report_s_runs_are_reproduced_and_its_control_is_not() -> None:
    main = summary([FALLEN_S] * 19 + [HEALTHY_S])
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert main.ratio is not None
    assert main.ratio.point == pytest.approx(0.95)
    assert (main.ratio.low, main.ratio.high) == pytest.approx((0.7513, 0.9987), abs=1e-4)  # Clopper-Pearson
    assert summary([HEALTHY_S] * 9).verdict is ReproductionVerdict.NOT_REPRODUCED


def test_on_another_engine_a_load_that_slows_every_run_shows_nothing() -> None:
    """There too much load looks the same; one run that stayed fast tells the two apart."""
    url: dict[str, object] = {"suite": {"engine": {"kind": "openai"}}}
    assert summary([FALLEN_S] * 20).verdict is ReproductionVerdict.REPRODUCED
    assert summary([FALLEN_S] * 20, manifest=url).verdict is ReproductionVerdict.INCONCLUSIVE
    assert summary([FALLEN_S] * 19 + [HEALTHY_S], manifest=url).verdict is ReproductionVerdict.REPRODUCED


def test_a_mean_does_not_decide() -> None:
    """Six of twenty runs at ten times the ITL: the mean is 3.7 times a healthy run's, and most are."""
    found = summary([10 * HEALTHY_S] * 6 + [HEALTHY_S] * 14)
    assert found.verdict is not ReproductionVerdict.REPRODUCED
    assert summary([3.4 * HEALTHY_S] * 19 + [HEALTHY_S]).verdict is ReproductionVerdict.REPRODUCED


def test_a_coin_s_toss_and_few_runs_stay_open() -> None:
    assert summary([FALLEN_S, HEALTHY_S] * 10).verdict is ReproductionVerdict.INCONCLUSIVE
    assert summary([FALLEN_S] * 3).verdict is ReproductionVerdict.INCONCLUSIVE
    assert summary([]).verdict is ReproductionVerdict.INCONCLUSIVE


def test_a_run_whose_light_load_is_as_slow_has_not_fallen() -> None:
    assert summary([FALLEN_S] * 20, light_s=FALLEN_S).verdict is ReproductionVerdict.NOT_REPRODUCED


def test_the_suite_is_the_report_s_load() -> None:
    suite = load_suite(REPRODUCER.suite)
    assert suite.load.rate_per_s is not None
    assert suite.load.rate_per_s * suite.load.concurrency[-1] == pytest.approx(31.0)
    assert suite.engine.options["penalties"]["capture_sizes"][-1] == 32  # type: ignore[index]
    assert REPRODUCER.control.change(suite).repeats == CONTROL_RUNS


def test_the_embedded_engine_falls_with_graphs_up_to_32_and_never_beyond(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
    assert control.ratio is not None
    assert control.ratio.point == 0.0


def test_the_slow_state_holds_while_requests_keep_coming() -> None:
    """Once 48 requests decode (half as many again as the largest graph), no step has 32 or fewer of them as
    long as the load lasts, in any run: the report's "never recovers"."""
    suite = load_suite(REPRODUCER.suite)
    rate = suite.load.concurrency[-1]
    load = with_load(duration_s=20.0)(suite).load
    fell = 0
    for repeat in range(4):
        key = CellKey(SUBJECT, rate, repeat)
        _, steps, cell = simulate_cell(
            suite.engine.profile or "",
            suite.baseline,
            suite.engine.options,
            key,
            load,
            TrafficMix(suite.traffic, suite.seed).cell(key),
            suite.seed,
        )
        batches = [step.batch for step in steps if step.start_s < cell.window_end_s]
        down = next((at for at, batch in enumerate(batches) if batch >= 48), None)
        if down is not None:
            fell += 1
            assert min(batches[down:]) > 32
    assert fell >= 3
