"""Least squares of step times: no negative constant, balanced loads, robust weights, where the knee lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from governors.telemetry import StepRecord
from reports.step_design import design

Array = NDArray[np.float64]
KNEES = 16
KNEE_STEPS = 4000  # so many, evenly spaced, are enough to find it
KNEE_HELPS = 0.1
LEAST_SPREAD = 0.01  # no law holds to less: steps within a per cent or so are no outliers
_HUBER = 1.345
_ROUNDS = 20


def solve(moments: Array) -> Array:
    """Least squares with every constant >= 0, from the normal equations (n + 1, n + 1), target last."""
    from scipy.optimize import nnls

    root, right = triangle(moments)
    return np.asarray(nnls(root, right)[0])


def triangle(moments: Array) -> tuple[NDArray[Any], NDArray[Any]]:
    """(R, z): |R x - z| is least where the residuals are; columns scaled, so that none is lost."""
    size = np.sqrt(np.diag(moments[:-1, :-1]))
    size[size == 0] = 1.0
    scaled = moments[:-1, :-1] / np.outer(size, size) + 1e-12 * np.eye(len(size))
    root = np.linalg.cholesky(scaled).T
    return root * size, np.linalg.solve(root.T, moments[:-1, -1] / size)


def balanced(records: Sequence[StepRecord]) -> Array:
    """Weights (steps,), mean 1, at which a load that lasted long does not drown the others.

    1 / sqrt(steps of the same tokens and graph mode).
    """
    loads = [(step.graph_mode, step.batch + step.verified) for step in records]
    count = Counter(loads)
    weights = np.array([count[load] ** -0.5 for load in loads])
    return np.asarray(weights / weights.mean())


def huber(matrix: Array, target: Array, balance: Array) -> Array:
    """Weights of rows by iterated least squares: errors beyond 1.345 robust deviations count less."""
    weights = balance
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        x = np.linalg.lstsq(matrix * root[:, None], target * root, rcond=None)[0]
        left = np.abs(target - matrix @ x)
        spread = max(float(np.median(left)) / 0.6745, LEAST_SPREAD)
        after = balance * np.minimum(1.0, _HUBER * spread / np.maximum(left, 1e-300))
        if np.abs(after - weights).max() < 1e-3:
            break
        weights = after
    return np.asarray(weights)


def find_knee(records: Sequence[StepRecord], *, block_drafter: bool) -> int | None:
    """Tokens from which each costs more: where least is left (weighted L1); None if under 10 % is won."""
    some = records[:: max(1, len(records) // KNEE_STEPS)]
    tokens = np.array([step.batch + step.verified for step in some])
    places = np.unique(np.geomspace(max(1, tokens.min()), tokens.max(), KNEES).astype(int))[:-1]
    left = {int(place): _left(some, int(place), block_drafter) for place in places}
    straight = _left(some, None, block_drafter)
    best = min(left, key=lambda place: left[place], default=None)
    return best if best is not None and left[best] < (1 - KNEE_HELPS) * straight else None


def _left(records: Sequence[StepRecord], knee: int | None, block_drafter: bool) -> float:
    built = design(records, block_drafter=block_drafter, knee=knee)
    matrix, target = built.matrix / built.scale[:, None], built.target / built.scale
    balance = np.tile(balanced(records), built.equations) * built.usable
    rows = np.column_stack([matrix, target])
    value = solve((rows * balance[:, None]).T @ rows)
    return float((balance * np.abs(target - matrix @ value)).sum())
