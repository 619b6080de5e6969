"""Prediction errors summed up: medians, percentiles, the sign of the gain, and the bars they are held to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

FITTED = "fitted"
BY_SPLIT = "held out by the split"
MEDIAN_BAR, P90_BAR, SIGN_BAR = 0.06, 0.15, 0.95  # declared before the first run
REPEATABLE = 0.05  # standard error of a figure over its repeats
BAND = 0.02  # a measured gain this close to 1 has no sign


class Predicted(Protocol):
    """A figure and its prediction; see engines.embedded.validation.validate.Prediction."""

    @property
    def table(self) -> str: ...
    @property
    def quantity(self) -> str: ...
    @property
    def arm(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def depth(self) -> int | None: ...
    @property
    def context_tokens(self) -> int | None: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def measured(self) -> float: ...
    @property
    def predicted(self) -> float: ...
    @property
    def noise(self) -> float | None: ...
    @property
    def role(self) -> str: ...
    @property
    def gain(self) -> float | None: ...
    @property
    def gain_predicted(self) -> float | None: ...
    @property
    def error(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Errors:
    """Of held-out cells only. None = no such cell.

    cells            how many; `split_cells`: those held out by the declared split, the rest left out alone
    median, p90      of |predicted / measured - 1|; `split_*`: of those held out by the split
    sign_right       share of `sign_cells` (measured gain outside 1 +- BAND) whose gain is on the right side
    noise_median, noise_p90   what a perfect model would show: from the stated standard errors of
                     `noise_cells` figures (normal in the logarithm)
    """

    cells: int
    median: float | None
    p90: float | None
    split_cells: int
    split_median: float | None
    split_p90: float | None
    sign_cells: int
    sign_right: float | None
    noise_cells: int
    noise_median: float | None
    noise_p90: float | None

    @property
    def met(self) -> tuple[bool | None, bool | None, bool | None]:
        """Median, 90th percentile and sign against their bars; None = no cell asks it."""
        return (
            None if self.median is None else self.median <= MEDIAN_BAR,
            None if self.p90 is None else self.p90 <= P90_BAR,
            None if self.sign_right is None else self.sign_right >= SIGN_BAR,
        )

    @property
    def holds(self) -> bool:
        """Something was predicted, and no bar is missed."""
        return self.cells > 0 and False not in self.met


def errors_of(cells: Iterable[Predicted]) -> Errors:
    """Fitted cells are left out."""
    held = [cell for cell in cells if cell.role != FITTED]
    sizes = [abs(cell.error) for cell in held]
    split = [abs(cell.error) for cell in held if cell.role == BY_SPLIT]
    signs = [right for cell in held if (right := sign_is_right(cell)) is not None]
    noise = [cell.noise for cell in held if cell.noise]
    return Errors(
        cells=len(held),
        median=quantile(sizes, 0.5),
        p90=quantile(sizes, 0.9),
        split_cells=len(split),
        split_median=quantile(split, 0.5),
        split_p90=quantile(split, 0.9),
        sign_cells=len(signs),
        sign_right=sum(signs) / len(signs) if signs else None,
        noise_cells=len(noise),
        noise_median=_noise_quantile(noise, 0.5),
        noise_p90=_noise_quantile(noise, 0.9),
    )


def groups_of(cells: Sequence[Predicted]) -> dict[str, Errors]:
    """Published figures (nobody states how well they repeat), our own, and of those the repeatable ones."""
    own = [cell for cell in cells if cell.noise is not None]
    groups = {
        "published figures": [cell for cell in cells if cell.noise is None],
        "measured by us": own,
        "of them repeatable within 5 %": [cell for cell in own if (cell.noise or 0.0) <= REPEATABLE],
    }
    return {name: errors_of(group) for name, group in groups.items() if group}


def sign_is_right(cell: Predicted) -> bool | None:
    """None where there is no gain to have a sign, or the measured one is within the band."""
    if cell.gain is None or cell.gain_predicted is None or abs(cell.gain - 1.0) <= BAND:
        return None
    return (cell.gain > 1.0) == (cell.gain_predicted > 1.0)


def quantile(values: Sequence[float], share: float) -> float | None:
    """Linear between order statistics (numpy's default); None of nothing."""
    if not values:
        return None
    ranked = sorted(values)
    place = share * (len(ranked) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (place - low) * (ranked[high] - ranked[low])


def _noise_quantile(noise: Sequence[float], share: float) -> float | None:
    """Of |error| when the logarithm of each figure is off by N(0, its noise): bisection on the mean CDF."""
    if not noise:
        return None
    normal, low, high = NormalDist(), 0.0, 3.0 * max(noise) + 1e-9
    for _ in range(50):
        middle = (low + high) / 2
        below = sum(2 * normal.cdf(middle / sd) - 1 for sd in noise) / len(noise)
        low, high = (middle, high) if below < share else (low, middle)
    return math.expm1(low)
