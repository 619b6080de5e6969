"""Bounded least squares of a table's free constants on some of its cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.embedded.validation.prediction import Predictor
from engines.embedded.validation.table import Cell, Table

NOISE = 0.05  # what a figure without a stated error is trusted to (log); sets how much the priors weigh
LEAST_NOISE = 0.03  # and one with a smaller stated error: the model is no better than that
_STEP = 1e-3


@dataclass(frozen=True, slots=True)
class Fit:
    """`values` by path; `at_bound`: paths that ended at a bound."""

    values: Mapping[str, float]
    at_bound: tuple[str, ...]


def fit(table: Table, cells: Sequence[Cell], start: Mapping[str, float] | None = None) -> Fit:
    """Constants at which the cells and the priors are likeliest; robust (soft L1) against single cells.

    Residuals: log(predicted / measured) / noise a cell, log(value / start) / sd a constant.
    """
    from scipy.optimize import least_squares

    free = table.header.free
    paths = [constant.path for constant in free]
    if not free:
        return Fit({}, ())
    prior = np.log([constant.start for constant in free])
    sd = np.array([constant.sd for constant in free])
    low, high = np.log([[c.low, c.high] for c in free]).T
    measured = np.array([math.log(cell.value) for cell in cells])
    noise = np.array([NOISE if cell.noise is None else max(cell.noise, LEAST_NOISE) for cell in cells])

    def residuals(x: NDArray[np.float64]) -> NDArray[np.float64]:
        predictor = Predictor(table, dict(zip(paths, np.exp(x).tolist(), strict=True)))
        found = np.array([math.log(predictor.value(cell)) for cell in cells])
        return np.concatenate([(found - measured) / noise, (x - prior) / sd])

    begin = prior if start is None else np.log([start[path] for path in paths])
    inside = np.clip(begin, low + 1e-6, high - 1e-6)
    if start is None:
        inside = least_squares(residuals, inside, bounds=(low, high), diff_step=_STEP, xtol=1e-4, ftol=1e-4).x
    found = least_squares(
        residuals,
        np.clip(inside, low + 1e-6, high - 1e-6),
        bounds=(low, high),
        loss="soft_l1",
        f_scale=2.0,
        diff_step=_STEP,
        xtol=1e-4,
        ftol=1e-4,
    ).x
    edge = (found - low < 1e-3) | (high - found < 1e-3)
    return Fit(
        dict(zip(paths, np.exp(found).tolist(), strict=True)),
        tuple(path for path, at in zip(paths, edge, strict=True) if at),
    )
