"""The rule of prefill-burst on made-up cells, and on the embedded engine by either way of counting."""

from __future__ import annotations

from pathlib import Path

from reports.reproduction import ReproductionVerdict
from reproducers.prefill_burst import BY_DECODES, EVERY_S, REPRODUCER, SUBJECT, assess
from suites.parse import load_suite
from tests.reproducers.made_up import JITTER, cell, judgement, throughputs
from tests.reproducers.virtual import reproduced


def verdict(switches: float, by_decodes: float, speed: float, waited_s: float = 0.05) -> ReproductionVerdict:
    rates = {SUBJECT: switches, BY_DECODES: by_decodes}
    cells = [
        cell(
            arm,
            8,
            by_repeat={
                at: {"switches_per_1k_steps": rate * jitter, "ttft_p50_s": waited_s * jitter}
                for at, jitter in enumerate(JITTER)
            },
        )
        for arm, rate in rates.items()
    ]
    return assess(judgement(cells), throughputs({SUBJECT: speed, BY_DECODES: 1.0}, (8,))).verdict


def test_a_k_that_follows_the_prompts_and_costs_is_reproduced() -> None:
    assert verdict(400.0, 0.0, 0.92) is ReproductionVerdict.REPRODUCED


def test_a_k_that_stays_or_costs_nothing_is_not() -> None:
    assert verdict(0.0, 0.0, 1.0) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict(400.0, 0.0, 1.0) is ReproductionVerdict.NOT_REPRODUCED


def test_a_batch_that_itself_crosses_the_threshold_is_no_prefill_burst() -> None:
    assert verdict(400.0, 400.0, 0.92) is ReproductionVerdict.NOT_REPRODUCED


def test_prompts_that_pile_up_decide_nothing() -> None:
    """A server that does not carry the load has prompts in every step, whoever counts them."""
    assert verdict(400.0, 0.0, 0.92, waited_s=30.0) is ReproductionVerdict.INCONCLUSIVE
    assert verdict(0.0, 0.0, 1.0, waited_s=30.0) is ReproductionVerdict.INCONCLUSIVE


def test_the_suite_is_the_case() -> None:
    """8 decode, 12 come at once and never decode, the threshold lies at 16 and between the two."""
    suite = load_suite(REPRODUCER.suite)
    assert suite.load.bursts is not None
    (burst,) = suite.load.bursts
    (prompts,) = (each for each in suite.traffic if each.name == burst.traffic)
    assert burst.every_s == EVERY_S
    assert (suite.load.concurrency, burst.requests, prompts.max_tokens) == ((8,), 12, 1)
    assert {arm.options["schedule"][0][1] for arm in suite.arms} == {16}  # type: ignore[index]


def test_the_embedded_engine_has_it_while_prompts_are_counted(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
