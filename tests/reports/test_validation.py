"""Error statistics against hand-made cells, and a page that escapes what it is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pytest

from reports.validation import BY_SPLIT, FITTED, errors_of, groups_of, quantile, sign_is_right
from reports.validation_page import TablePart, validation_page


@dataclass(frozen=True, slots=True)
class Cell:
    table: str = "t"
    quantity: str = "tokens_per_s"
    arm: str = "mtp"
    batch: int = 4
    depth: int | None = None
    context_tokens: int | None = None
    tokens: int | None = None
    measured: float = 100.0
    predicted: float = 100.0
    noise: float | None = None
    role: str = BY_SPLIT
    gain: float | None = None
    gain_predicted: float | None = None

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1.0


def off_by(*percent: float, role: str = BY_SPLIT) -> list[Cell]:
    return [Cell(predicted=100.0 + p, role=role) for p in percent]


def test_quantiles_are_numpy_s() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([1.0, 2.0], 0.9) == pytest.approx(1.9)
    assert quantile([], 0.5) is None


def test_fitted_cells_enter_no_total() -> None:
    errors = errors_of([*off_by(1, -3, 5), *off_by(50, 60, role=FITTED)])
    assert errors.cells == 3
    assert errors.median == pytest.approx(0.03)
    assert errors.p90 == pytest.approx(0.046)


def test_cells_left_out_alone_count_but_not_as_the_split_s() -> None:
    errors = errors_of([*off_by(2), *off_by(20, role="left out alone")])
    assert (errors.cells, errors.split_cells) == (2, 1)
    assert errors.median == pytest.approx(0.11)
    assert errors.split_median == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("gain", "predicted", "right"),
    [
        (1.5, 1.2, True),
        (0.7, 1.01, False),
        (1.019, 0.5, None),
        (0.981, 1.5, None),
        (1.03, 0.99, False),
        (None, None, None),
    ],
)
def test_sign(gain: float | None, predicted: float | None, right: bool | None) -> None:
    assert sign_is_right(replace(Cell(), gain=gain, gain_predicted=predicted)) is right


def test_bars() -> None:
    signs = [replace(Cell(), gain=1.5, gain_predicted=2.0)]
    assert errors_of([*signs, *off_by(5)]).met == (True, True, True)
    assert errors_of([*signs, *off_by(5, 7, 9, 30, 30, 30)]).met == (False, False, True)
    assert errors_of(off_by(1)).met == (True, True, None)  # no sign was tested
    assert errors_of(off_by(1)).holds
    assert errors_of([]).met == (None, None, None)
    assert not errors_of([]).holds


def test_noise_alone_against_drawn_figures() -> None:
    noise = [0.02, 0.2, 0.2, 0.05]
    random = Random(2)
    drawn = [abs(random.gauss(0, sd)) for sd in noise for _ in range(20_000)]
    errors = errors_of([replace(Cell(), noise=sd) for sd in noise])
    assert errors.noise_cells == 4
    assert errors.noise_p90 == pytest.approx(pow(2.718281828, quantile(drawn, 0.9) or 0) - 1, rel=0.03)


def page(name: str = "t", title: str = "a table") -> str:
    cells = [
        *off_by(1, -30),
        replace(Cell(quantity="ratio", measured=1.5, predicted=0.9), gain=1.5, gain_predicted=0.9),
    ]
    facts = {"source": "<b>https://example.org</b>", "split": "s", "constants": {"rate": 0.5}, "notes": ["n"]}
    return validation_page([TablePart(name, title, facts, cells)])


def test_page_says_what_was_missed_and_that_it_is_a_model() -> None:
    text = page()
    assert "✗</span> missed" in text
    assert "A model" in text
    assert "3 held-out figures of 1 tables" in text


def test_a_quantity_without_a_figure_has_no_plot() -> None:
    """`page` holds rates and a ratio, and no step time."""
    text = page()
    assert "<h4>tokens/s</h4>" in text
    assert "<h4>ratio to no speculation</h4>" in text
    assert "<h4>step time, ms</h4>" not in text


def test_page_escapes() -> None:
    text = page(name='"><img src=x>', title="<script>alert(1)</script>")
    assert "<img src=x>" not in text
    assert "<script>alert(1)" not in text
    assert "<b>https" not in text
    assert "&lt;b&gt;https" in text


def test_groups_by_what_is_known_of_repeats() -> None:
    cells = [
        *off_by(1, 2),
        *(replace(cell, noise=0.01) for cell in off_by(3)),
        *(replace(cell, noise=0.2) for cell in off_by(9)),
    ]
    sizes = {name: errors.cells for name, errors in groups_of(cells).items()}
    assert sizes == {"published figures": 2, "measured by us": 2, "of them repeatable within 5 %": 1}
    assert list(groups_of(off_by(1))) == ["published figures"]
