"""One figure over several concurrencies: means and paired ratios, Student's interval over repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.records import CellKey
from reports.judgement import Interval, Judgement


@dataclass(frozen=True, slots=True)
class RepeatFigures:
    """One metric: its value in every cell and repeat; a repeat that something spoiled is not in it."""

    values: Mapping[CellKey, float]
    confidence: float = 0.95

    def of(self, arm: str, concurrency: int) -> tuple[float, ...]:
        """The values of one cell, in the order of the repeats: a distribution over runs."""
        found = {
            key.repeat: value
            for key, value in self.values.items()
            if (key.arm, key.concurrency) == (arm, concurrency)
        }
        return tuple(found[repeat] for repeat in sorted(found))

    def mean(self, arm: str, concurrencies: Iterable[int]) -> Interval | None:
        """Mean over `concurrencies`, interval over the repeats that have them all; None below two."""
        wanted = tuple(concurrencies)
        rows = [
            [self.values.get(CellKey(arm, concurrency, repeat)) for concurrency in wanted]
            for repeat in sorted({key.repeat for key in self.values})
        ]
        whole = [[value for value in row if value is not None] for row in rows]
        return interval_of_mean(
            [float(np.mean(row)) for row in whole if row and len(row) == len(wanted)], self.confidence
        )

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

    def across(self, arm: str, concurrencies: Iterable[int], against: Iterable[int]) -> Interval | None:
        """One arm at `concurrencies` over itself at `against`, geometric means, paired by repeat."""
        top, bottom = self._logs(arm, tuple(concurrencies)), self._logs(arm, tuple(against))
        shared = sorted(top.keys() & bottom.keys())
        return interval_of_logs([top[repeat] - bottom[repeat] for repeat in shared], self.confidence)

    def _logs(self, arm: str, concurrencies: Sequence[int]) -> dict[int, float]:
        """Repeat -> mean log; a repeat counts only when it has every concurrency."""
        logs: dict[int, float] = {}
        for repeat in {key.repeat for key in self.values}:
            found = [self.values.get(CellKey(arm, concurrency, repeat)) for concurrency in concurrencies]
            known = [value for value in found if value]
            if known and len(known) == len(found):
                logs[repeat] = float(np.mean(np.log(known)))
        return logs

    def _log_ratios(self, arm: str, to: str, concurrencies: Sequence[int]) -> list[float]:
        by_repeat = self._by_repeat(arm, to, concurrencies)
        return [by_repeat[repeat] for repeat in sorted(by_repeat)]

    def _by_repeat(self, arm: str, to: str, concurrencies: Sequence[int]) -> dict[int, float]:
        """Repeat -> mean log ratio; a repeat counts only when it has every concurrency of both arms."""
        logs: dict[int, float] = {}
        for repeat in sorted({key.repeat for key in self.values}):
            pairs = [
                (
                    self.values.get(CellKey(arm, concurrency, repeat)),
                    self.values.get(CellKey(to, concurrency, repeat)),
                )
                for concurrency in concurrencies
            ]
            if pairs and all(top and bottom for top, bottom in pairs):
                logs[repeat] = float(
                    np.mean([np.log(top or 1.0) - np.log(bottom or 1.0) for top, bottom in pairs])
                )
        return logs


class Throughputs(RepeatFigures):
    """Output tokens/s of every valid cell of a run; a cell that is invalid or has no tokens is not in it."""

    __slots__ = ()

    @property
    def tokens_per_s(self) -> Mapping[CellKey, float]:
        return self.values


def repeat_figures(judgement: Judgement, metric: str, confidence: float = 0.95) -> RepeatFigures:
    """Any other metric of `CellFigures.by_repeat`; a repeat with a spoiled cell is left out whole, as it is
    from throughputs (docs/decisions/0018)."""
    cells = judgement.cells
    known = {repeat for cell in cells for repeat in cell.by_repeat}
    whole = [repeat for repeat in known if all(repeat in cell.by_repeat for cell in cells)]
    return RepeatFigures(
        {
            CellKey(cell.arm, cell.concurrency, repeat): cell.by_repeat[repeat][metric]
            for cell in cells
            for repeat in whole
            if metric in cell.by_repeat[repeat]
        },
        confidence,
    )


def interval_of_mean(values: Sequence[float], confidence: float) -> Interval | None:
    """Student's t interval of the mean; None below two values, which show no spread."""
    from scipy.special import stdtrit  # slow to import

    if len(values) < 2:
        return None
    taken = np.asarray(values, dtype=np.float64)
    half = float(stdtrit(len(taken) - 1, 0.5 + confidence / 2)) * float(taken.std(ddof=1)) / len(taken) ** 0.5
    mean = float(taken.mean())
    return Interval(mean - half, mean, mean + half)


def interval_of_logs(logs: Sequence[float], confidence: float) -> Interval | None:
    """exp of Student's t interval of the mean of `logs`; None below two values."""
    found = interval_of_mean(logs, confidence)
    return found and Interval(*(float(np.exp(edge)) for edge in (found.low, found.point, found.high)))
