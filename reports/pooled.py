"""One ratio over several concurrencies: geometric mean of paired cells, Student's interval over repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.records import CellKey
from reports.judgement import Interval


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Output tokens/s of every valid cell of a run; a cell that is invalid or has no tokens is not in it."""

    tokens_per_s: Mapping[CellKey, float]
    confidence: float = 0.95

    def ratio(self, arm: str, to: str, concurrencies: Iterable[int]) -> Interval | None:
        """Geometric mean over `concurrencies` of arm / to, paired by repeat; None without pairs."""
        return interval_of_logs(self._log_ratios(arm, to, tuple(concurrencies)), self.confidence)

    def ratio_of_ratios(
        self, arm: str, to: str, concurrencies: Iterable[int], against: Iterable[int]
    ) -> Interval | None:
        """(arm / to over `concurrencies`) / (arm / to over `against`), paired by repeat."""
        above = self._by_repeat(arm, to, tuple(concurrencies))
        below = self._by_repeat(arm, to, tuple(against))
        logs = [above[repeat] - below[repeat] for repeat in sorted(above.keys() & below.keys())]
        return interval_of_logs(logs, self.confidence)

    def _log_ratios(self, arm: str, to: str, concurrencies: Sequence[int]) -> list[float]:
        by_repeat = self._by_repeat(arm, to, concurrencies)
        return [by_repeat[repeat] for repeat in sorted(by_repeat)]

    def _by_repeat(self, arm: str, to: str, concurrencies: Sequence[int]) -> dict[int, float]:
        """Repeat -> mean log ratio; a repeat counts only when it has every concurrency of both arms."""
        logs: dict[int, float] = {}
        for repeat in sorted({key.repeat for key in self.tokens_per_s}):
            pairs = [
                (
                    self.tokens_per_s.get(CellKey(arm, concurrency, repeat)),
                    self.tokens_per_s.get(CellKey(to, concurrency, repeat)),
                )
                for concurrency in concurrencies
            ]
            if pairs and all(top and bottom for top, bottom in pairs):
                logs[repeat] = float(
                    np.mean([np.log(top or 1.0) - np.log(bottom or 1.0) for top, bottom in pairs])
                )
        return logs


def interval_of_logs(logs: Sequence[float], confidence: float) -> Interval | None:
    """exp of Student's t interval of the mean of `logs`; None below two values, which show no spread."""
    from scipy.special import stdtrit  # slow to import

    if len(logs) < 2:
        return None
    values = np.asarray(logs, dtype=np.float64)
    half = (
        float(stdtrit(len(values) - 1, 0.5 + confidence / 2)) * float(values.std(ddof=1)) / len(values) ** 0.5
    )
    mean = float(values.mean())
    return Interval(float(np.exp(mean - half)), float(np.exp(mean)), float(np.exp(mean + half)))
