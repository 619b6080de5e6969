"""Fits the host constants of h200-qwen3-4b-eagle, and how its speed wanders.

The host of that machine swings by a factor of three within seconds, so a burst's CPU times are taken as
level x constant: one latent level a burst, the same for all that the CPU does in it. Timed separately were
execute_model (which launches the forward), sample_tokens (which launches the drafter) and the rest of the
period (scheduling, output handling; known only where the host was the slower one). The constants are those
at which the levels of all fitted bursts have a geometric mean of 1. Uncaptured bursts nearly all ran at a
slow level, which cannot be told from a dear launch; so that launch is fitted to their whole period at level
1.

Fitted: off, off under PIECEWISE, K pinned to 0, K1, K2, K4 at 1, 4, 8, 32, 128 requests. Held out: every
other batch, and the arms K3, K2 under PIECEWISE and the schedule as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from engines.embedded.constants import HostSpec
from engines.embedded.fits.campaign import StepRow, step_rows, trace_steps
from governors.contract import GraphMode

Array = NDArray[np.float64]

FIT_ARMS = ("nospec", "nospec_pw", "zero", "k1", "k2", "k4")
FIT_CONCURRENCY = (1, 4, 8, 32, 128)
TRACE_ARMS, TRACE_CONCURRENCY = ("nospec_pw", "dyn", "k2_pw", "k1", "k2"), (1, 2, 4, 6, 8, 16, 32)

# In ms: three launches; then per request and with drafts in execute_model, sample_tokens and the rest.
NAMES: tuple[str, ...] = (
    "full",
    "piecewise",
    "eager",
    "exec_request",
    "exec_verify",
    "exec_verify_request",
    "exec_drafter",
)
NAMES += ("sample", "sample_request", "sample_verify", "sample_verify_request", "draft_first", "draft_next")
NAMES += ("rest", "rest_request")
START = (1.5, 9, 20, 0.006, 0.5, 0.005, 0.3, 0.4, 0.003, 0.6, 0.007, 1, 0.7, 0.4, 0.015)
_LAUNCH = {GraphMode.FULL: 0, GraphMode.PIECEWISE: 1, GraphMode.NONE: 2}
_LEVEL_PRIOR = 0.05  # keeps the levels identified; the constants move by less than 2 % without it


@dataclass(frozen=True, slots=True)
class HostFit:
    """The constants, and by burst the levels that they imply (log)."""

    host: HostSpec
    constants_ms: dict[str, float]


def fit_rows(rows: Sequence[StepRow]) -> tuple[list[StepRow], list[StepRow]]:
    """(fitted, held out): bursts at 128 tokens of prompt on runner V1."""
    usable = [row for row in rows if row.prompt_tokens == 128 and row.mode in _LAUNCH]
    fitted = [row for row in usable if row.arm in FIT_ARMS and row.concurrency in FIT_CONCURRENCY]
    return fitted, [row for row in usable if row not in fitted]


def design(row: StepRow) -> Array:
    """(3, constants): how often each constant counts in execute_model, sample_tokens and the rest."""
    b, verify, drafter = row.requests, float(row.drafts > 0), float(row.forwards > 0)
    matrix = np.zeros((3, len(NAMES)))
    matrix[0, _LAUNCH[row.mode]] = 1
    matrix[0, 3:7] = b, verify, verify * b, drafter
    matrix[1, 7:13] = 1, b, verify, verify * b, drafter, max(0, row.forwards - 1)
    matrix[2, 13:15] = 1, b
    return matrix


def levels(rows: Sequence[StepRow], constants_ms: Array) -> tuple[Array, Array]:
    """(log level of each row, what it leaves unexplained (rows, 3)); the rest weighs a quarter, or 0."""
    weights = np.array([[1.0, 1.0, 0.25 if _rest_is_known(row) else 0.0] for row in rows])
    measured = np.array([[r.exec_s, r.sample_s, max(r.period_s - r.host_s, 1e-6)] for r in rows]) * 1e3
    errors = np.log(measured) - np.log(np.array([design(row) for row in rows]) @ constants_ms)
    level = (weights * errors).sum(axis=1) / weights.sum(axis=1)
    return level, np.sqrt(weights) * (errors - level[:, None])


def _rest_is_known(row: StepRow) -> bool:
    """Only where the host was the slower one; and medians of a burst with two speeds need not add up."""
    return row.arm != "nospec" and row.period_s > row.host_s


def fit_host(measured: Path) -> HostFit:
    """Robust least squares on the logarithms; every constant >= 0."""
    fitted, _ = fit_rows(step_rows(measured))

    def residuals(x: Array) -> Array:
        level, left = levels(fitted, np.exp(x))
        return np.concatenate([left.ravel(), level * _LEVEL_PRIOR, [10 * level.mean()]])

    x = least_squares(residuals, np.log(START), loss="soft_l1", f_scale=0.1).x
    constants = dict(zip(NAMES, (float(v) for v in np.exp(x)), strict=True))
    constants["eager"] = _eager_ms(fitted, constants)
    host = _host(constants, *_wander(measured, np.exp(x)))
    return HostFit(replace(host, **_slack(fitted, np.exp(x))), constants)


def _slack(rows: Sequence[StepRow], constants_ms: Array) -> dict[str, float]:
    """Level and swing of the arm in which the GPU is always the slower one, against the busy arms'."""
    level, _ = levels(rows, constants_ms)
    waits = np.array([row.arm == "nospec" for row in rows])
    swing = level[waits].std() / level[~waits].std()
    return {"slack_level": float(np.exp(level[waits].mean())), "slack_swing": float(swing)}


def _eager_ms(fitted: Sequence[StepRow], constants: dict[str, float]) -> float:
    rows = [row for row in fitted if row.mode is GraphMode.NONE]
    rest = (
        np.array([design(row).sum(axis=0) for row in rows]) @ np.array([*constants.values()])
        - constants["eager"]
    )
    periods_ms = np.array([row.period_s for row in rows]) * 1e3
    return float(np.exp(np.log(periods_ms).mean()) - rest.mean())


def _host(ms: dict[str, float], level_sd: float, level_time_s: float, jitter_sd: float) -> HostSpec:
    return HostSpec(
        step_s=(ms["sample"] + ms["rest"]) * 1e-3,
        request_s=(ms["exec_request"] + ms["sample_request"] + ms["rest_request"]) * 1e-3,
        launch_full_s=ms["full"] * 1e-3,
        launch_piecewise_s=ms["piecewise"] * 1e-3,
        launch_eager_s=ms["eager"] * 1e-3,
        verify_s=(ms["exec_verify"] + ms["sample_verify"]) * 1e-3,
        verify_request_s=(ms["exec_verify_request"] + ms["sample_verify_request"]) * 1e-3,
        draft_first_s=(ms["exec_drafter"] + ms["draft_first"]) * 1e-3,
        draft_next_s=ms["draft_next"] * 1e-3,
        level_sd=level_sd,
        level_time_s=level_time_s,
        jitter_sd=jitter_sd,
    )


def _trace_levels(measured: Path, constants_ms: Array) -> Iterator[tuple[Array, Array]]:
    """By trace: (time, log level) of its steps."""
    for arm, concurrency in product(TRACE_ARMS, TRACE_CONCURRENCY):
        steps = [
            s
            for s in trace_steps(measured, arm, concurrency)
            if s.requests == concurrency and s.mode in _LAUNCH
        ]
        expected = np.array([design(step)[:2].sum(axis=0) @ constants_ms for step in steps])
        level = np.log(np.array([step.host_s for step in steps]) * 1e3 / expected)
        yield np.cumsum([step.period_s for step in steps]), level


def _wander(measured: Path, constants_ms: Array) -> tuple[float, float, float]:
    """(level sd, correlation time, jitter sd) of the variogram jitter^2 + level^2 (1 - exp(-dt/time)).

    Its sill is the variance of all steps of all traces about the common median level.
    """
    traces = list(_trace_levels(measured, constants_ms))
    total = float(np.var(np.concatenate([level for _, level in traces])))
    lags = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    gaps = np.array([np.mean([np.median(t[lag:] - t[:-lag]) for t, _ in traces]) for lag in lags])
    half = np.array([np.mean([0.5 * np.mean((x[lag:] - x[:-lag]) ** 2) for _, x in traces]) for lag in lags])

    def residuals(p: Array) -> Array:
        return np.asarray(p[0] + (total - p[0]) * (1 - np.exp(-gaps / p[1])) - half)

    jitter, time_s = least_squares(
        residuals, (0.002, 0.5), bounds=((0, 0.01), (total, 60)), x_scale=(1e-3, 0.1)
    ).x
    return float((total - jitter) ** 0.5), float(time_s), float(jitter**0.5)


def main(shared: Path) -> None:
    """Prints constants, and by arm and batch what is left unexplained and the level."""
    measured = shared / "h200" / "measured"
    fit = fit_host(measured)
    print(fit.host)
    constants = np.array([*fit.constants_ms.values()])
    for title, rows in zip(("fitted", "held out"), fit_rows(step_rows(measured)), strict=True):
        rows = [row for row in rows if row.mode is not GraphMode.NONE]  # fitted to the whole period instead
        level, left = levels(rows, constants)
        print(
            title,
            "rms left in execute, sample",
            np.sqrt((left[:, :2] ** 2).mean(axis=0)),
            "level sd",
            level.std(),
        )


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
