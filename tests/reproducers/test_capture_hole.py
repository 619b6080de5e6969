"""capture-hole: its rule, what the configuration alone foretells, its grid, and the embedded engine."""

from __future__ import annotations

from pathlib import Path

from reports.reproduction import ReproductionVerdict
from reproducers.capture_hole import REPRODUCER, assess, check
from reproducers.changes import with_load
from reproducers.configuration import EngineConfig, default_sizes, graph_edges
from suites.parse import load_suite
from tests.reproducers.made_up import JITTER, cell, judgement, rates_by_width
from tests.reproducers.virtual import assessed, reproduced

CAPTURED = (4, 8, 16)  # 1, 2 and 4 requests at K=3
AT = (1, 2, 3, 4)


def verdict(factors: dict[int, float], acceptance_at_3: float = 2.5) -> ReproductionVerdict:
    cells = [
        cell(
            arm,
            at,
            by_repeat={
                repeat: {"acceptance_length": (acceptance_at_3 if at == 3 else 2.5) * jitter}
                for repeat, jitter in enumerate(JITTER)
            },
        )
        for arm in ("off", "fixed_3")
        for at in AT
    ]
    rates = rates_by_width({"off": dict.fromkeys(AT, 1.0), "fixed_3": factors})
    return assess(judgement(cells), rates).verdict


def test_a_hole_is_reproduced_and_a_falling_curve_is_not() -> None:
    assert verdict({1: 1.5, 2: 1.5, 3: 0.5, 4: 1.5}) is ReproductionVerdict.REPRODUCED
    assert verdict({1: 1.5, 2: 1.2, 3: 0.5, 4: 0.4}) is ReproductionVerdict.NOT_REPRODUCED
    assert verdict({1: 1.5, 2: 1.5, 3: 1.5, 4: 1.5}) is ReproductionVerdict.NOT_REPRODUCED


def test_a_hole_in_acceptance_is_another_fault() -> None:
    found = verdict({1: 1.5, 2: 1.5, 3: 0.5, 4: 1.5}, acceptance_at_3=1.2)
    assert found is ReproductionVerdict.INCONCLUSIVE


def test_the_hole_is_foretold() -> None:
    (finding,) = check(EngineConfig(4, (3,), CAPTURED, padding=False))
    assert finding.sentence == (
        "K=3 without padding: 3 requests (12 tokens) fall between captured sizes and run eager; "
        "turn padding on, or capture 12 tokens too"
    )
    assert check(EngineConfig(4, (3,), CAPTURED)) == ()
    assert check(EngineConfig(4, (0,), (1, 2, 3, 4), padding=False)) == ()


def test_many_holes_are_one_line() -> None:
    (finding,) = check(EngineConfig(32, (2,), default_sizes(64), padding=False))
    assert finding.says == (
        "K=2 without padding: 1-7, 9-15, 17-21 requests (3, 6, 9, 12 ... tokens) fall between captured sizes "
        "and run eager"
    )


def test_the_suite_s_grid_has_points_between_captured_widths_and_powers_of_two_miss_the_hole(
    tmp_path: Path,
) -> None:
    suite = load_suite(REPRODUCER.suite)
    assert suite.load.concurrency == graph_edges(CAPTURED, depth=3, most=4)
    missed = assessed(REPRODUCER, with_load(concurrency=(1, 2, 4))(suite), tmp_path / "run")
    assert missed.verdict is ReproductionVerdict.INCONCLUSIVE
    assert missed.ratio is None


def test_the_embedded_engine_has_it_without_padding_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
