"""The rule of starved-streams on made-up cells, and on the embedded engine with its switch on and off."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.reproduction import ReproductionVerdict
from reproducers.starved_streams import EVEN, REPRODUCER, SUBJECT, assess
from tests.reproducers.made_up import JITTER, cell, judgement, throughputs
from tests.reproducers.virtual import reproduced

STARVED = (1.8, 39.4, 2.4, 6.1, 1.7, 2.2, 1.8, 3.3)  # tok/s, as reported
SHARED = (3.8, 4.2, 4.6, 5.0, 5.0, 5.4, 5.8, 6.2)  # "evenly 3.8 to 6.2"


def jain(speeds: tuple[float, ...]) -> float:
    return sum(speeds) ** 2 / (len(speeds) * sum(speed * speed for speed in speeds))


def figures(speeds: tuple[float, ...]) -> dict[int, dict[str, float]]:
    return {
        repeat: {"jain_index": min(1.0, jain(speeds) * jitter), "tpot_p99_s": 1.0 / min(speeds)}
        for repeat, jitter in enumerate(JITTER)
    }


def verdict(greedy: tuple[float, ...], even: tuple[float, ...], tokens: float = 1.0) -> ReproductionVerdict:
    cells = [cell(SUBJECT, 8, by_repeat=figures(greedy)), cell(EVEN, 8, by_repeat=figures(even))]
    return assess(judgement(cells), throughputs({SUBJECT: tokens, EVEN: 1.0}, (8,))).verdict


def test_the_published_figure_is_that_of_the_published_speeds() -> None:
    assert REPRODUCER.published_figure is not None
    assert jain(STARVED) == pytest.approx(REPRODUCER.published_figure.low, abs=5e-4)


def test_the_report_s_streams_are_reproduced_whatever_their_mean() -> None:
    assert sum(STARVED) > sum(SHARED)  # the mean speaks for the starving server
    assert verdict(STARVED, SHARED) is ReproductionVerdict.REPRODUCED


def test_an_even_share_is_not_starvation_even_when_it_is_slow() -> None:
    assert verdict(SHARED, SHARED) is ReproductionVerdict.NOT_REPRODUCED
    slow = tuple(speed / 3 for speed in SHARED)
    assert verdict(slow, SHARED, tokens=1 / 3) is ReproductionVerdict.NOT_REPRODUCED


def test_a_favourite_at_nobody_s_expense_is_not_starvation() -> None:
    assert verdict((39.4, *SHARED[1:]), SHARED) is ReproductionVerdict.NOT_REPRODUCED


def test_a_mean_that_falls_too_leaves_it_open() -> None:
    assert verdict(STARVED, SHARED, tokens=0.4) is ReproductionVerdict.INCONCLUSIVE


def test_the_embedded_engine_has_it_with_the_switch_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
