"""Bounded least squares of a table's free constants on some of its cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engines.embedded.validation.prediction import Predictor
from engines.embedded.validation.table import Cell, Table

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Array = NDArray[np.float64]

NOISE = 0.05  # what a figure without a stated error is trusted to (log); sets how much the priors weigh
LEAST_NOISE = 0.03  # and one with a smaller stated error: the model is no better than that
_STEP = np.array(1e-3)  # relative, of log(value)
_SCALE = 2.0  # residuals beyond it count less
REFIT_CELLS = 50


@dataclass(frozen=True, slots=True)
class Fit:
    """`values` by path; `at_bound`: paths that ended at a bound."""

    values: Mapping[str, float]
    at_bound: tuple[str, ...]


def fit(table: Table, cells: Sequence[Cell], start: Mapping[str, float] | None = None) -> Fit:
    """Constants at which the cells and the priors are likeliest; robust (soft L1) against single cells.

    Residuals: log(predicted / measured) / noise a cell, log(value / start) / sd a constant.
    """
    if not table.header.free:
        return Fit({}, ())
    problem = _Problem(table, cells)
    found = problem.solve(start).x
    edge = (found - problem.low < 1e-3) | (problem.high - found < 1e-3)
    return Fit(problem.values(found), tuple(path for path, at in zip(problem.paths, edge, strict=True) if at))


def without_each(table: Table, start: Mapping[str, float]) -> dict[int, Mapping[str, float]]:
    """Index of a cell that the split fits on -> constants fitted to all the other cells.

    Up to REFIT_CELLS cells: a whole fit each. More: one Gauss-Newton step away from the fit to all cells.
    """
    indices = [index for index, fitted in enumerate(table.fitted) if fitted]
    problem = _Problem(table, table.cells)
    everything = problem.solve(start)
    if len(table.cells) > REFIT_CELLS:
        steps = problem.steps_without(everything.x, indices)
        return {index: problem.values(x) for index, x in zip(indices, steps, strict=True)}
    begin = problem.values(everything.x)
    others = {index: [*table.cells[:index], *table.cells[index + 1 :]] for index in indices}
    return {index: fit(table, cells, begin).values for index, cells in others.items()}


class _Problem:
    """Residuals over the logarithms of the free constants."""

    def __init__(self, table: Table, cells: Sequence[Cell]) -> None:
        free = table.header.free
        self._table, self._cells = table, cells
        self.paths = [constant.path for constant in free]
        self._prior = np.log([constant.start for constant in free])
        self._sd = np.array([constant.sd for constant in free])
        self.low, self.high = np.log([[c.low, c.high] for c in free]).T
        self._measured = np.array([math.log(cell.value) for cell in cells])
        self._noise = np.array([NOISE if c.noise is None else max(c.noise, LEAST_NOISE) for c in cells])

    def values(self, x: Array) -> dict[str, float]:
        """By path."""
        return dict(zip(self.paths, np.exp(x).tolist(), strict=True))

    def residuals(self, x: Array) -> Array:
        """Cells, then constants."""
        predictor = Predictor(self._table, self.values(x))
        found = np.array([math.log(predictor.value(cell)) for cell in self._cells])
        return np.concatenate([(found - self._measured) / self._noise, (x - self._prior) / self._sd])

    def solve(self, start: Mapping[str, float] | None) -> OptimizeResult:
        """From `start`, or by plain least squares from the priors first."""
        from scipy.optimize import least_squares

        limits: dict[str, Any] = {
            "bounds": (self.low, self.high),
            "diff_step": _STEP,
            "xtol": 1e-4,
            "ftol": 1e-4,
        }
        begin = self._prior if start is None else np.log([start[path] for path in self.paths])
        begin = self._inside(begin)
        if start is None:
            begin = self._inside(least_squares(self.residuals, begin, **limits).x)
        return least_squares(self.residuals, begin, loss="soft_l1", f_scale=_SCALE, **limits)

    def steps_without(self, x: Array, indices: Sequence[int]) -> Iterator[Array]:
        """Where one Gauss-Newton step leads from the fit `x` once a cell no longer pulls (exact if linear).

        Weights of the robust loss are kept: rho'(z) = 1 / sqrt(1 + z), z = (residual / scale)^2.
        """
        residuals = self.residuals(x)
        columns = [(self.residuals(x + _STEP * unit) - residuals) / _STEP for unit in np.eye(len(x))]
        jacobian = np.array(columns).T
        for index in indices:
            weight = 1.0 / np.sqrt(1.0 + (residuals / _SCALE) ** 2)
            weight[index] = 0.0
            normal = jacobian.T @ (weight[:, None] * jacobian)
            step = np.linalg.solve(normal, jacobian.T @ (weight * residuals))
            yield np.clip(x - step, self.low, self.high)

    def _inside(self, x: Array) -> Array:
        return np.clip(x, self.low + 1e-6, self.high - 1e-6)
