"""The rule of drafter-starvation on made-up cells, and on the engine without and with the sync forward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reports.reproduction import ReproductionSummary, ReproductionVerdict
from reproducers.changes import with_penalties
from reproducers.drafter_starvation import REPRODUCER, assess
from suites.parse import load_suite
from tests.reproducers.made_up import JITTER, cell, judgement, throughputs
from tests.reproducers.virtual import assessed, reproduced

ARMS = ("fixed_3", "pulse")


def summary(pulse: float, steady: float = 2.1, *, steps: bool = True) -> ReproductionSummary:
    """Accepted drafts a verification of the two arms, of 3 that are verified."""
    figures = {
        arm: {
            repeat: {"acceptance_length": 1 + accepted * jitter}
            | ({f"acceptance_{kind}": accepted / 3 * jitter} if steps else {})
            for repeat, jitter in enumerate(JITTER)
        }
        for arm, accepted, kind in (("fixed_3", steady, "settled"), ("pulse", pulse, "resumed"))
    }
    run = judgement([cell(arm, at, by_repeat=figures[arm]) for arm in ARMS for at in (1, 4)])
    return assess(run, throughputs(dict.fromkeys(ARMS, 1.0), (1, 4)))


def test_the_report_s_fall_is_reproduced_and_the_detector_says_it() -> None:
    found = summary(pulse=0.15)
    assert found.verdict is ReproductionVerdict.REPRODUCED
    assert found.evidence[-1] == (
        "detector, state starvation after K=0: starved: 0.05 of the first drafts after K=0 pass, "
        "0.70 of others (ratio 0.07, 0.07 to 0.07)"
    )


def test_a_drafter_that_tolerates_the_pause_is_not_it() -> None:
    found = summary(pulse=2.0)
    assert found.verdict is ReproductionVerdict.NOT_REPRODUCED
    assert "K=0: not starved" in found.evidence[-1]


def test_counters_alone_decide_it() -> None:
    found = summary(pulse=0.15, steps=False)
    assert found.verdict is ReproductionVerdict.REPRODUCED
    assert found.evidence[-1] == "detector, state starvation after K=0: no step records"


def test_a_drafter_with_nothing_to_lose_decides_nothing() -> None:
    assert summary(pulse=0.02, steady=0.3).verdict is ReproductionVerdict.INCONCLUSIVE


def test_the_embedded_engine_has_it_without_the_sync_forward_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    assert "starved" in main.evidence[-1]
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED


def test_an_mtp_drafter_tolerates_it(tmp_path: Path) -> None:
    """The MTP profile, with its own starvation (none) and without the sync forward."""
    suite = with_penalties(drafter_starvation=None)(load_suite(REPRODUCER.suite))
    engine = replace(suite.engine, profile="gb10-qwen3.5-122b-mtp")
    found = assessed(REPRODUCER, replace(suite, engine=engine, drafter_class="mtp"), tmp_path / "mtp")
    assert found.verdict is ReproductionVerdict.NOT_REPRODUCED
